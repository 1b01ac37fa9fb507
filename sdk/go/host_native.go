//go:build !wasip1

package weir

import (
	"fmt"
	"os"
)

func hostLog(level, message string) { fmt.Fprintf(os.Stderr, "%s: %s\n", level, message) }

// Natively a folder is one of the test's.

func (f Folder) append(path string, bytes []byte) error { return f.memory.append(f.name, path, bytes) }

func (f Folder) read(path string, offset uint64, limit uint32) ([]byte, error) {
	return f.memory.read(f.name, path, offset, limit)
}

func (f Folder) sync(path string) error { return f.memory.sync(f.name, path) }

func (f Folder) mkdir(path string) error { return f.memory.mkdir(f.name, path) }

func (f Folder) rename(source, target string) (bool, error) {
	return f.memory.rename(f.name, source, target)
}

func (f Folder) remove(path string) (bool, error) { return f.memory.remove(f.name, path) }

func (f Folder) exists(path string) (bool, error) { return f.memory.exists(f.name, path) }

func (f Folder) list(path string) ([]string, error) { return f.memory.list(f.name, path) }
