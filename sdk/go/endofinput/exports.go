//go:build wasip1

package endofinput

import (
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

//go:wasmexport weir:plugin/end-of-input@1.0.0#on-end
func exportOnEnd(port uint32) unsafe.Pointer { return abi.OnEnd(port) }

//go:wasmexport weir:plugin/end-of-input@1.0.0#on-end-keys
func exportOnEndKeys(data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32, states unsafe.Pointer,
	stateCount uint32) unsafe.Pointer {
	keys := abi.Column{Data: abi.Bytes(data, dataLen), Index: abi.Bytes(index, indexLen)}
	return abi.OnEndKeys(keys, abi.CellsAt(states, stateCount))
}

//go:wasmexport cabi_post_weir:plugin/end-of-input@1.0.0#on-end
func postOnEnd(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/end-of-input@1.0.0#on-end-keys
func postOnEndKeys(unsafe.Pointer) { abi.Release() }
