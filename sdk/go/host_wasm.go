//go:build wasip1

package weir

import (
	"encoding/binary"
	"unsafe"
)

// The canonical ABI of the contract, by hand. Lists are a pointer and a length; what the host passes lies in memory that it asked
// cabi_export_realloc for, what it gets must lie still until the call's cabi_post function. (A cabi_realloc would be called by
// WASI's adapter before Go's runtime is up.)

//go:wasmimport weir:plugin/host@1.0.0 log
//go:noescape
func importLog(level unsafe.Pointer, levelLen uint32, message unsafe.Pointer, messageLen uint32)

//go:wasmimport weir:plugin/host@1.0.0 emit
//go:noescape
func importEmit(port, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32)

func hostLog(level, message string) {
	importLog(unsafe.Pointer(unsafe.StringData(level)), uint32(len(level)),
		unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
}

func hostEmit(port uint32, b batch) {
	importEmit(port, b.count, pointer(b.data), uint32(len(b.data)), pointer(b.index), uint32(len(b.index)),
		pointer(b.times), uint32(len(b.times)), pointer(b.aux), uint32(len(b.aux)))
}

func pointer(bytes []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(bytes)) }

func bytesAt(at unsafe.Pointer, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at), length)
}

// exported is the one operator of this component.
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
	}
	return exported.driver
}

// writer lays an answer out.
type writer struct{ bytes []byte }

func (w *writer) u32(number uint32) { w.bytes = binary.LittleEndian.AppendUint32(w.bytes, number) }

func (w *writer) list(bytes []byte) {
	exported.held = append(exported.held, bytes)
	w.u32(uint32(uintptr(pointer(bytes))))
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
	w.u32(uint32(uintptr(pointer(elements.bytes))))
	w.u32(uint32(count))
}

func (w *writer) batch(b batch) {
	w.u32(b.count)
	w.list(b.data)
	w.list(b.index)
	w.list(b.times)
	w.list(b.aux)
}

// failure writes an error, after the tag that says that it is one.
func (w *writer) failure(err error) {
	tag := uint32(2)
	if isRetry(err) {
		tag = 0
	}
	w.u32(tag)
	w.text(err.Error())
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

//go:wasmexport cabi_export_realloc
func exportRealloc(old unsafe.Pointer, oldLen, align, length uint32) unsafe.Pointer {
	bytes := exported.arguments.allocate(int(length))
	copy(bytes, bytesAt(old, oldLen))
	return pointer(bytes)
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
		w.u32(1)
	})
	w.records(len(info.SideOutputs), func(w *writer, i int) { w.text(info.SideOutputs[i]) })
	w.u32(info.Inputs)
	return w.end()
}

//go:wasmexport weir:plugin/operator@1.0.0#open
func exportOpen(job unsafe.Pointer, jobLen uint32, name unsafe.Pointer, nameLen uint32, subtask, parallelism, attempt uint32,
	config unsafe.Pointer, configLen uint32) unsafe.Pointer {
	task := Task{
		Job: string(bytesAt(job, jobLen)), Operator: string(bytesAt(name, nameLen)),
		Subtask: subtask, Parallelism: parallelism, Attempt: attempt,
	}
	err := operator().open(task, append([]byte(nil), bytesAt(config, configLen)...))
	w := begin()
	if err == nil {
		w.u32(0)
	} else {
		w.u32(1)
		w.failure(err)
	}
	return w.end()
}

//go:wasmexport weir:plugin/operator@1.0.0#process
func exportProcess(port, count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32,
	times unsafe.Pointer, timesLen uint32, aux unsafe.Pointer, auxLen uint32, keyOf unsafe.Pointer, keyOfLen uint32,
	states unsafe.Pointer, stateCount uint32) unsafe.Pointer {
	d := operator()
	records := batch{count, bytesAt(data, dataLen), bytesAt(index, indexLen), bytesAt(times, timesLen), bytesAt(aux, auxLen)}
	// A list of cells is six words each.
	words := unsafe.Slice((*uint32)(states), 6*stateCount)
	list := func(i int) []byte { return bytesAt(unsafe.Add(unsafe.Pointer(nil), words[i]), words[i+1]) }
	values := make([]cells, stateCount)
	for i := range values {
		values[i] = cells{list(6 * i), list(6*i + 2), list(6*i + 4)}
	}
	done := d.process(port, records, bytesAt(keyOf, keyOfLen), values)
	w := begin()
	switch {
	case done.err != nil:
		w.u32(1)
		w.failure(done.err)
	case done.bad != nil:
		w.u32(1)
		w.u32(1)
		w.records(len(done.bad), func(w *writer, i int) {
			w.u32(done.bad[i].index)
			w.text(done.bad[i].why)
		})
	default:
		w.u32(0)
		w.batch(d.out.batch())
		var sides []*Port
		for i := range d.out.sides {
			if d.out.sides[i].count > 0 {
				sides = append(sides, &d.out.sides[i])
			}
		}
		w.records(len(sides), func(w *writer, i int) {
			w.u32(sides[i].number - 1)
			w.batch(sides[i].batch())
		})
		w.records(len(done.updates), func(w *writer, i int) {
			w.list(done.updates[i].ops)
			w.list(done.updates[i].data)
			w.list(done.updates[i].index)
		})
	}
	return w.end()
}

//go:wasmexport weir:plugin/operator@1.0.0#close
func exportClose() { operator().close() }

// The host has read the answer: what the call needed is free.
func release() {
	clear(exported.held)
	exported.held = exported.held[:0]
	exported.arguments.reset()
	operator().memory.reset()
}

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#describe
func postDescribe(unsafe.Pointer) { release() }

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#open
func postOpen(unsafe.Pointer) { release() }

//go:wasmexport cabi_post_weir:plugin/operator@1.0.0#process
func postProcess(unsafe.Pointer) { release() }
