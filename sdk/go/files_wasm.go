//go:build wasip1

package weir

import (
	"bytes"
	"errors"
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// The host asks for memory while these run, which a call of Go's own serves: what they are given must not lie on a stack.

//go:wasmimport weir:plugin/files@1.0.0 append
func importAppend(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, data unsafe.Pointer, dataLen uint32,
	answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 read
func importRead(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, offset uint64, limit uint32,
	answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 sync
func importSync(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 mkdir
func importMkdir(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 rename
func importRename(grant unsafe.Pointer, grantLen uint32, source unsafe.Pointer, sourceLen uint32, target unsafe.Pointer, targetLen uint32,
	answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 remove
func importRemove(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 exists
func importExists(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, answer unsafe.Pointer)

//go:wasmimport weir:plugin/files@1.0.0 list
func importList(grant unsafe.Pointer, grantLen uint32, path unsafe.Pointer, pathLen uint32, answer unsafe.Pointer)

// fileAnswer is a result of any of them: whether it failed, then two words.
var fileAnswer [3]uint32

func answered() unsafe.Pointer { return unsafe.Pointer(&fileAnswer) }

func fileWords() abi.Words { return abi.WordsAt(answered(), 3) }

func fileError() error {
	// The first byte alone says it; the others are undefined.
	if words := fileWords(); words[0] != 0 {
		return errors.New(string(words.List(1)))
	}
	return nil
}

// fileBool reads a result whose good half is a bool.
func fileBool() (bool, error) {
	if err := fileError(); err != nil {
		return false, err
	}
	return fileWords()[4] != 0, nil
}

// pair is a text as the two words that it crosses the boundary as.
func pair(text string) (unsafe.Pointer, uint32) { return abi.TextPointer(text), uint32(len(text)) }

func (f Folder) append(path string, data []byte) error {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importAppend(grant, grantLen, at, length, abi.Pointer(data), uint32(len(data)), answered())
	return fileError()
}

func (f Folder) read(path string, offset uint64, limit uint32) ([]byte, error) {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importRead(grant, grantLen, at, length, offset, limit, answered())
	if err := fileError(); err != nil {
		return nil, err
	}
	return bytes.Clone(fileWords().List(1)), nil
}

func (f Folder) sync(path string) error {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importSync(grant, grantLen, at, length, answered())
	return fileError()
}

func (f Folder) mkdir(path string) error {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importMkdir(grant, grantLen, at, length, answered())
	return fileError()
}

func (f Folder) rename(source, target string) (bool, error) {
	grant, grantLen := pair(f.name)
	from, fromLen := pair(source)
	to, toLen := pair(target)
	importRename(grant, grantLen, from, fromLen, to, toLen, answered())
	return fileBool()
}

func (f Folder) remove(path string) (bool, error) {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importRemove(grant, grantLen, at, length, answered())
	return fileBool()
}

func (f Folder) exists(path string) (bool, error) {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importExists(grant, grantLen, at, length, answered())
	return fileBool()
}

func (f Folder) list(path string) ([]string, error) {
	grant, grantLen := pair(f.name)
	at, length := pair(path)
	importList(grant, grantLen, at, length, answered())
	if err := fileError(); err != nil {
		return nil, err
	}
	words := fileWords()
	list := abi.WordsAt(unsafe.Add(unsafe.Pointer(nil), words.U32(1)), 2*words.U32(2))
	names := make([]string, words.U32(2))
	for i := range names {
		names[i] = string(list.List(2 * i))
	}
	return names, nil
}
