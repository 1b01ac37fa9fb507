//go:build wasip1

package timers

import (
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

//go:wasmimport weir:plugin/timer-service@1.0.0 register-many
//go:noescape
func registerMany(kind unsafe.Pointer, kindLen, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32)

//go:wasmimport weir:plugin/timer-service@1.0.0 delete-many
//go:noescape
func deleteMany(kind unsafe.Pointer, kindLen, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32)

//go:wasmimport weir:plugin/timer-service@1.0.0 current
//go:noescape
func current(kind unsafe.Pointer, kindLen uint32) int64

type service struct{}

func init() { abi.Timers = service{} }

func (service) RegisterMany(kind string, b abi.Batch) {
	registerMany(abi.TextPointer(kind), uint32(len(kind)), b.Count, abi.Pointer(b.Data), uint32(len(b.Data)), abi.Pointer(b.Index),
		uint32(len(b.Index)), abi.Pointer(b.Times), uint32(len(b.Times)), abi.Pointer(b.Aux), uint32(len(b.Aux)))
}

func (service) DeleteMany(kind string, b abi.Batch) {
	deleteMany(abi.TextPointer(kind), uint32(len(kind)), b.Count, abi.Pointer(b.Data), uint32(len(b.Data)), abi.Pointer(b.Index),
		uint32(len(b.Index)), abi.Pointer(b.Times), uint32(len(b.Times)), abi.Pointer(b.Aux), uint32(len(b.Aux)))
}

func (service) Current(kind string) int64 { return current(abi.TextPointer(kind), uint32(len(kind))) }

//go:wasmexport weir:plugin/timers@1.0.0#on-timers
func exportOnTimers(kind unsafe.Pointer, kindLen, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer,
	indexLen uint32, times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32, keyOf unsafe.Pointer, keyOfLen uint32,
	states unsafe.Pointer, stateCount uint32) unsafe.Pointer {
	due := abi.Batch{
		Count: count, Data: abi.Bytes(data, dataLen), Index: abi.Bytes(index, indexLen), Times: abi.Bytes(times, timesLen),
		Aux: abi.Bytes(aux, auxLen),
	}
	return abi.OnTimers(abi.Text(kind, kindLen), due, abi.Bytes(keyOf, keyOfLen), abi.CellsAt(states, stateCount))
}

//go:wasmexport cabi_post_weir:plugin/timers@1.0.0#on-timers
func postOnTimers(unsafe.Pointer) { abi.Release() }
