//go:build wasip1

package keyedstate

import (
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// The host asks for memory while this runs, which a call of Go's own serves: what it is given must not lie on a stack.
//
//go:wasmimport weir:plugin/keyed-state@1.0.0 get-many
func getMany(state uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32, answer unsafe.Pointer)

//go:wasmimport weir:plugin/keyed-state@1.0.0 put-many
//go:noescape
func putMany(state uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32, values unsafe.Pointer,
	valuesLen uint32, valueIndex unsafe.Pointer, valueIndexLen uint32)

//go:wasmimport weir:plugin/keyed-state@1.0.0 delete-many
//go:noescape
func deleteMany(state uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32)

type service struct{}

func init() { abi.Keyed = service{} }

var answer [6]uint32

func (service) GetMany(state uint32, keys abi.Column) abi.Cells {
	getMany(state, abi.Pointer(keys.Data), uint32(len(keys.Data)), abi.Pointer(keys.Index), uint32(len(keys.Index)),
		unsafe.Pointer(&answer))
	return abi.CellsAt(unsafe.Pointer(&answer), 1)[0]
}

func (service) PutMany(state uint32, keys, values abi.Column) {
	putMany(state, abi.Pointer(keys.Data), uint32(len(keys.Data)), abi.Pointer(keys.Index), uint32(len(keys.Index)),
		abi.Pointer(values.Data), uint32(len(values.Data)), abi.Pointer(values.Index), uint32(len(values.Index)))
}

func (service) DeleteMany(state uint32, keys abi.Column) {
	deleteMany(state, abi.Pointer(keys.Data), uint32(len(keys.Data)), abi.Pointer(keys.Index), uint32(len(keys.Index)))
}
