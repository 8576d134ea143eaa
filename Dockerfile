# syntax=docker/dockerfile:1
# Two stages: one builds the wheel and the environment, the other carries nothing but Python and that environment.
#
#   docker build --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" --tag berth .
#
# The same sources and the same base give the same files. A tag moves with its security fixes; whoever wants the base
# fixed too gives its digest: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
# The time that every file of ours bears.
ARG SOURCE_DATE_EPOCH=1577836800
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# Neither environment has pip: what fills them stays outside, and what builds stays out of what runs.
RUN python -m venv --without-pip /opt/berth && \
    python -m pip --python /opt/berth/bin/python install --no-compile --only-binary :all: --require-hashes -r requirements.lock && \
    python -m venv --without-pip /opt/build && \
    python -m pip --python /opt/build/bin/python install --no-compile --only-binary :all: --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
COPY docs/troubleshooting.md ./docs/
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /wheels && \
    python -m pip --python /opt/berth/bin/python install --no-compile --no-deps --no-index --find-links /wheels berth
# Bytecode makes a start take less than half the time, and a read-only root file system cannot keep any. It carries the
# hash of its source instead of a time, unchecked, so that it is the same in every build. The models of the Kubernetes
# client, most of its files, are never imported.
RUN /opt/berth/bin/python -m compileall -q --invalidation-mode unchecked-hash -x '/kubernetes/(aio/)?client/(api|models)/' /opt/berth/lib && \
    find /opt/berth -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="berth" \
      org.opencontainers.image.description="Puts every Pod beside the network hardware that it needs" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# The base brings pip; nothing that installs is left in a container.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip && \
    rm -rf /usr/local/lib/python3.*/ensurepip
COPY --from=build /opt/berth /opt/berth
ENV PATH=/opt/berth/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10000:10000
EXPOSE 8443 8444 9090
STOPSIGNAL SIGTERM
# For engines that ask (Kubernetes does not: the chart has probes); BERTH_HEALTH_CHECK_PORT is honored.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["berth", "health"]
ENTRYPOINT ["berth"]
CMD ["webhook"]
