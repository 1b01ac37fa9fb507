// Package abi is what crosses the boundary, and what the SDK's packages tell each other of it.
//
// Go exports whatever functions for export stand in the packages that a plugin imports. So each optional interface of the contract
// has a package of its own, with nothing but its functions, and importing it makes the component export the interface.
package abi

import (
	"encoding/binary"
	"unsafe"
)

// Batch is a batch of records as it crosses the boundary.
type Batch struct {
	Count                   uint32
	Data, Index, Times, Aux []byte
}

// Column is a list of byte strings.
type Column struct{ Data, Index []byte }

// Cells are the values of one state, one for each distinct key.
type Cells struct{ Ops, Data, Index []byte }

// TimerService is the contract's timer-service.
type TimerService interface {
	RegisterMany(kind string, timers Batch)
	DeleteMany(kind string, timers Batch)
	Current(kind string) int64
}

// KeyedState is the contract's keyed-state.
type KeyedState interface {
	GetMany(state uint32, keys Column) Cells
	PutMany(state uint32, keys, values Column)
	DeleteMany(state uint32, keys Column)
}

// What the packages that a plugin imports bring along.
var (
	HasTimers, HasEndOfInput, HasKeyedState, HasSink bool

	Timers TimerService
	Keyed  KeyedState
)

// What the functions for export call. An answer is where it lies; Release says that the host has read it.
var (
	OnTimers  func(kind string, due Batch, keyOf []byte, states []Cells) unsafe.Pointer
	OnEnd     func(port uint32) unsafe.Pointer
	OnEndKeys func(keys Column, states []Cells) unsafe.Pointer
	Sink      SinkExports
	Release   func()
)

// Committable is the contract's committable.
type Committable struct {
	ID, Checkpoint string
	Version        uint32
	Bytes          []byte
}

// SinkExports are the functions of a sink.
type SinkExports interface {
	Describe() unsafe.Pointer
	Open(job, sink string, subtask, parallelism, attempt uint32, config []byte) unsafe.Pointer
	Begin(transaction string) unsafe.Pointer
	Write(records Batch) unsafe.Pointer
	Prepare(checkpoint string, endOfInput bool) unsafe.Pointer
	Close()
	OpenCommitter(job, sink string, config []byte) unsafe.Pointer
	Commit(what []Committable) unsafe.Pointer
	Status(what []Committable) unsafe.Pointer
	Abort(transactions []string) unsafe.Pointer
	ListDangling() unsafe.Pointer
	Forget(transactions []string) unsafe.Pointer
	CloseCommitter()
}

// Bytes are those that lie there.
func Bytes(at unsafe.Pointer, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at), length)
}

// Text is a copy of what lies there.
func Text(at unsafe.Pointer, length uint32) string { return string(Bytes(at, length)) }

// Pointer is where bytes lie.
func Pointer(bytes []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(bytes)) }

// TextPointer is where a text lies.
func TextPointer(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }

// Words reads 32-bit words that lie one after the other.
type Words []byte

// WordsAt are those that lie there.
func WordsAt(at unsafe.Pointer, count uint32) Words { return Words(Bytes(at, 4*count)) }

// U32 is word i.
func (w Words) U32(i int) uint32 { return binary.LittleEndian.Uint32(w[4*i:]) }

// List is the list of bytes that words i and i + 1 stand for.
func (w Words) List(i int) []byte {
	return Bytes(unsafe.Add(unsafe.Pointer(nil), w.U32(i)), w.U32(i+1))
}

// CellsAt reads a list of cells, each six words.
func CellsAt(at unsafe.Pointer, count uint32) []Cells {
	words := WordsAt(at, 6*count)
	cells := make([]Cells, count)
	for i := range cells {
		cells[i] = Cells{words.List(6 * i), words.List(6*i + 2), words.List(6*i + 4)}
	}
	return cells
}
