"""`berth` where no directory for temporary files can be written, as in many containers."""

from __future__ import annotations

import tempfile

from app.__main__ import main

if __name__ == "__main__":
    tempfile.tempdir = "/proc/none"
    main()
