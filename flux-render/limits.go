package main

import (
	"runtime/debug"
	"syscall"
)

// maxStackBytes ends a recursion without end long before it takes all of the memory.
const maxStackBytes = 64 << 20

const rlimitData = 2

// limitResources has the garbage collector keep below the limit of memory that the process was started with.
func limitResources() {
	debug.SetMaxStack(maxStackBytes)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitData, &limit); err == nil && limit.Cur < 1<<40 {
		debug.SetMemoryLimit(int64(limit.Cur) / 4 * 3)
	}
}
