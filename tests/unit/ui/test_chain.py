"""Where objects stand in the picture of a chain."""

from __future__ import annotations

import itertools

from app.ui.chain import HEIGHT, WIDTH, Edge, Node, ordered, picture, with_states


def test_objects_stand_below_what_led_to_them_each_once() -> None:
    links = [
        ("Pod a", "Rule r", True),
        ("Rule r", "Tenant t", True),
        ("Pod a", "Node n", False),
        ("Pod a", "Tenant t", True),
    ]
    rows, edges = ordered("Pod a", links)
    assert rows == [("Pod a", 0, True), ("Rule r", 1, True), ("Tenant t", 2, True), ("Node n", 1, False)]
    assert {(edge.source, edge.target) for edge in edges} == {(0, 1), (1, 2), (0, 3), (0, 2)}


def test_a_circle_ends() -> None:
    rows, edges = ordered("A a", [("A a", "B b", True), ("B b", "A a", True), ("B b", "B b", True)])
    assert [subject for subject, _, _ in rows] == ["A a", "B b"]
    assert len(edges) == 2


def test_a_deep_chain_is_placed_without_recursion() -> None:
    links = [(f"A {n}", f"A {n + 1}", True) for n in range(5000)]
    rows, edges = ordered("A 0", links)
    assert len(rows) == 5001
    nodes = with_states(rows, {}, {})
    drawn = picture(nodes, edges)
    assert all(box.x + box.width <= WIDTH for box in drawn.boxes)
    assert all(box.width > 0 for box in drawn.boxes)


def test_boxes_do_not_overlap_and_texts_fit() -> None:
    nodes = tuple(
        Node(subject=f"Pod team/{'n' * 253}", state="broken", text="t" * 500, found=True, target=None, level=level)
        for level in range(12)
    )
    drawn = picture(nodes, [Edge(source=0, target=1), Edge(source=3, target=1)])
    tops = [box.y for box in drawn.boxes]
    assert all(below - above >= HEIGHT for above, below in itertools.pairwise(tops))
    assert all(len(box.subject) * 7.4 <= box.width for box in drawn.boxes)
    assert drawn.height >= tops[-1] + HEIGHT
    assert all(line.startswith("M") for line in drawn.lines)


def test_what_is_not_there_says_so() -> None:
    (node,) = with_states([("Rule r", 0, False)], {}, {})
    assert picture((node,), ()).boxes[0].text == "does not exist"
