//go:build wasip1

package weir

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// The canonical ABI of the contract, by hand. Lists are a pointer and a length; what the host passes lies in memory that it asked
// cabi_export_realloc or cabi_import_realloc for, what it gets must lie still until the call's cabi_post function. (A cabi_realloc
// would be called by WASI's adapter before Go's runtime is up.)

//go:wasmimport weir:plugin/host@1.0.0 log
//go:noescape
func importLog(level unsafe.Pointer, levelLen uint32, message unsafe.Pointer, messageLen uint32)

//go:wasmimport weir:plugin/host@1.0.0 emit
//go:noescape
func importEmit(port, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32)

func hostLog(level, message string) {
	importLog(abi.TextPointer(level), uint32(len(level)), abi.TextPointer(message), uint32(len(message)))
}

func hostEmit(port uint32, b batch) {
	importEmit(port, b.Count, abi.Pointer(b.Data), uint32(len(b.Data)), abi.Pointer(b.Index), uint32(len(b.Index)),
		abi.Pointer(b.Times), uint32(len(b.Times)), abi.Pointer(b.Aux), uint32(len(b.Aux)))
}

// exported is the one operator of this component, and what its calls and those of a sink need.
var exported struct {
	*driver
	// arguments hold what the host passes.
	arguments arena
	// answer is what a call gives, and held all that it points to.
	answer writer
	held   []any
}

func operator() *driver {
	if exported.driver == nil {
		if registered == nil {
			panic("no operator: call weir.Register in an init function")
		}
		exported.driver = newDriver(registered, hostEmit)
		exported.timers, exported.onDemand = abi.Timers, abi.Keyed
	}
	return exported.driver
}

// writer lays an answer out.
type writer struct{ bytes []byte }

func (w *writer) u32(number uint32) { w.bytes = binary.LittleEndian.AppendUint32(w.bytes, number) }

func (w *writer) list(bytes []byte) {
	exported.held = append(exported.held, bytes)
	w.u32(uint32(uintptr(abi.Pointer(bytes))))
	w.u32(uint32(len(bytes)))
}

func (w *writer) text(text string) { w.list([]byte(text)) }

// records writes a list whose elements write lays out.
func (w *writer) records(count int, write func(element *writer, i int)) {
	var elements writer
	for i := range count {
		write(&elements, i)
	}
	exported.held = append(exported.held, elements.bytes)
	w.u32(uint32(uintptr(abi.Pointer(elements.bytes))))
	w.u32(uint32(count))
}

func (w *writer) batch(b batch) {
	w.u32(b.Count)
	w.list(b.Data)
	w.list(b.Index)
	w.list(b.Times)
	w.list(b.Aux)
}

// failure writes an error.
func (w *writer) failure(err error) {
	tag := uint32(2)
	if isRetry(err) {
		tag = 0
	}
	w.u32(tag)
	w.text(err.Error())
}

// badRecords writes the error that names them.
func (w *writer) badRecords(refused []bad) {
	w.u32(1)
	w.records(len(refused), func(w *writer, i int) {
		w.u32(refused[i].index)
		w.text(refused[i].why)
	})
}

// begin starts the answer of a call. It has room for the largest one, so that the host never reads beyond it.
func begin() *writer {
	if exported.answer.bytes == nil {
		exported.answer.bytes = make([]byte, 0, 64)
	}
	exported.answer.bytes = exported.answer.bytes[:0]
	return &exported.answer
}

func (w *writer) end() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(w.bytes)) }

// unit answers a call that gives nothing, or fails.
func unit(err error) unsafe.Pointer {
	w := begin()
	if err == nil {
		w.u32(0)
	} else {
		w.u32(1)
		w.failure(err)
	}
	return w.end()
}

//go:wasmexport cabi_export_realloc
func exportRealloc(old unsafe.Pointer, oldLen, align, length uint32) unsafe.Pointer {
	return reallocate(old, oldLen, length)
}

//go:wasmexport cabi_import_realloc
func importRealloc(old unsafe.Pointer, oldLen, align, length uint32) unsafe.Pointer {
	return reallocate(old, oldLen, length)
}

func reallocate(old unsafe.Pointer, oldLen, length uint32) unsafe.Pointer {
	bytes := exported.arguments.allocate(int(length))
	copy(bytes, abi.Bytes(old, oldLen))
	return abi.Pointer(bytes)
}

//go:wasmexport weir:plugin/operator@1.0.0#describe
func exportDescribe() unsafe.Pointer {
	info := operator().info
	w := begin()
	w.text(info.Name)
	w.text(info.Version)
	w.records(len(info.States), func(w *writer, i int) {
		w.text(info.States[i].Name)
		w.text("value")
		w.u32(info.States[i].Version)
		prefetch := uint32(1)
		if info.States[i].OnDemand {
			prefetch = 0
		}
		w.u32(prefetch)
	})
	w.records(len(info.SideOutputs), func(w *writer, i int) { w.text(info.SideOutputs[i]) })
	w.u32(info.Inputs)
	return w.end()
}

//go:wasmexport weir:plugin/operator@1.0.0#open
func exportOpen(job unsafe.Pointer, jobLen uint32, name unsafe.Pointer, nameLen uint32, subtask, parallelism, attempt uint32,
	config unsafe.Pointer, configLen uint32) unsafe.Pointer {
	task := Task{
		Job: abi.Text(job, jobLen), Operator: abi.Text(name, nameLen),
		Subtask: subtask, Parallelism: parallelism, Attempt: attempt,
	}
	return unit(operator().open(task, bytes.Clone(abi.Bytes(config, configLen))))
}

//go:wasmexport weir:plugin/operator@1.0.0#process
func exportProcess(port, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32, keyOf unsafe.Pointer, keyOfLen uint32,
	states unsafe.Pointer, stateCount uint32) unsafe.Pointer {
	records := batch{
		Count: count, Data: abi.Bytes(data, dataLen), Index: abi.Bytes(index, indexLen), Times: abi.Bytes(times, timesLen),
		Aux: abi.Bytes(aux, auxLen),
	}
	return answer(operator().process(port, records, abi.Bytes(keyOf, keyOfLen), abi.CellsAt(states, stateCount)))
}

// answer lays out what a processing call gives.
func answer(done result) unsafe.Pointer {
	w := begin()
	switch {
	case done.err != nil:
		w.u32(1)
		w.failure(done.err)
	case done.bad != nil:
		w.u32(1)
		w.badRecords(done.bad)
	default:
		w.u32(0)
		out := &exported.out
		w.batch(out.batch())
		var sides []*Port
		for i := range out.sides {
			if out.sides[i].count > 0 {
				sides = append(sides, &out.sides[i])
			}
		}
		w.records(len(sides), func(w *writer, i int) {
			w.u32(sides[i].number - 1)
			w.batch(sides[i].batch())
		})
		w.records(len(done.updates), func(w *writer, i int) {
			w.list(done.updates[i].Ops)
			w.list(done.updates[i].Data)
			w.list(done.updates[i].Index)
		})
	}
	return w.end()
}

//go:wasmexport weir:plugin/operator@1.0.0#close
func exportClose() { operator().close() }

// What the packages for optional interfaces export.
func init() {
	abi.OnTimers = func(kind string, due batch, keyOf []byte, states []cells) unsafe.Pointer {
		return answer(operator().fire(kind, due, keyOf, states))
	}
	abi.OnEnd = func(port uint32) unsafe.Pointer { return answer(operator().end(port)) }
	abi.OnEndKeys = func(keys column, states []cells) unsafe.Pointer { return answer(operator().endKeys(keys, states)) }
	abi.Release = release
	abi.Sink = sinkExports{}
}

// The host has read the answer: what the call needed is free.
func release() {
	clear(exported.held)
	exported.held = exported.held[:0]
	exported.arguments.reset()
	if exported.driver != nil {
		exported.memory.reset()
	}
}

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#describe
func postDescribe(unsafe.Pointer) { release() }

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#open
func postOpen(unsafe.Pointer) { release() }

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#process
func postProcess(unsafe.Pointer) { release() }
