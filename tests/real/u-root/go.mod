module berth.dev/tests/real/u-root

go 1.26.0

tool github.com/u-root/u-root/cmds/core/sleep // pause

require github.com/u-root/u-root v0.16.0 // indirect
