package weir

import (
	"encoding/binary"
	"slices"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// Bytes of keys, values and headers at which a batch is handed over in the middle of a call.
const chunkBytes = 256 << 10

// Tags of blocks in aux, and the bits of a mark; see wit/types.wit.
const (
	tagMarks   = 1
	tagHeaders = 2

	markKeyPresent = 1
	markValueNull  = 2

	nullHeader = 0xffff_ffff
)

func u32(bytes []byte) uint32 { return binary.LittleEndian.Uint32(bytes) }

func u32At(column []byte, i int) uint32 { return binary.LittleEndian.Uint32(column[4*i:]) }

func appendU32(column []byte, number int) []byte {
	return binary.LittleEndian.AppendUint32(column, uint32(number))
}

// arena is memory that lasts as long as a call.
type arena struct {
	chunk []byte
	used  int
	// full keeps earlier chunks alive that the host's lists lie in.
	full [][]byte
}

const (
	arenaBytes = 256 << 10
	// arenaKept is what an arena keeps from call to call at most.
	arenaKept = 16 << 20
)

// allocate gives length bytes, 8-aligned and not nil. What they hold is undefined.
func (a *arena) allocate(length int) []byte {
	room := (length + 7) &^ 7
	if a.used+room > len(a.chunk) || len(a.chunk) == 0 {
		if len(a.chunk) > 0 {
			a.full = append(a.full, a.chunk)
		}
		a.chunk, a.used = make([]byte, max(room, 2*len(a.chunk), arenaBytes)), 0
	}
	bytes := a.chunk[a.used : a.used+length : a.used+room]
	a.used += room
	return bytes
}

func (a *arena) reset() {
	a.full, a.used = nil, 0
	if len(a.chunk) > arenaKept {
		a.chunk = nil
	}
}

type (
	batch  = abi.Batch
	cells  = abi.Cells
	column = abi.Column
)

// input reads a batch.
type input struct {
	batch
	marks                []byte
	headerIndex, headers []byte
}

func newInput(b batch) input {
	in := input{batch: b}
	for rest := b.Aux; len(rest) >= 6; {
		tag, length := binary.LittleEndian.Uint16(rest), u32(rest[2:])
		block := rest[6 : 6+length]
		switch tag {
		case tagMarks:
			in.marks = block
		case tagHeaders:
			in.headerIndex, in.headers = block[:4*(b.Count+1)], block[4*(b.Count+1):]
		}
		rest = rest[6+length:]
	}
	return in
}

// read sets what the batch says of record i.
func (in *input) read(i int, record *Record) {
	from, middle, to := u32At(in.Index, 2*i), u32At(in.Index, 2*i+1), u32At(in.Index, 2*i+2)
	record.Key, record.Value = in.Data[from:middle:middle], in.Data[middle:to:to]
	record.Time = int64(binary.LittleEndian.Uint64(in.Times[8*i:]))
	var mark byte
	if in.marks != nil {
		mark = in.marks[i]
	}
	if from == middle {
		record.Key = nil
		if mark&markKeyPresent != 0 {
			record.Key = []byte{}
		}
	}
	if mark&markValueNull != 0 {
		record.Value = nil
	} else if record.Value == nil {
		record.Value = []byte{}
	}
	if in.headerIndex != nil {
		record.headers = in.headers[u32At(in.headerIndex, i):u32At(in.headerIndex, i+1)]
	}
}

// Port is one output: a batch under construction.
type Port struct {
	number             uint32
	count              int
	data, index, times []byte
	// marks are empty until the first record that has one; the headers' columns, too.
	marks                []byte
	headerIndex, headers []byte
	hasAux               bool
	discard              bool
	// whole: nothing is handed over before the end.
	whole bool
	emit  func(port uint32, records batch)
}

// Emit emits a record without headers. A nil key or value is null. The bytes are copied.
func (p *Port) Emit(key, value []byte, time int64) { p.push(key, value, time, nil) }

// EmitHeaders emits a record with headers of its own. A nil key or value is null. The bytes are copied.
func (p *Port) EmitHeaders(key, value []byte, time int64, headers ...Header) {
	p.push(key, value, time, encodeHeaders(headers))
}

// Forward passes a record on as it is, headers and all.
func (p *Port) Forward(record *Record) { p.push(record.Key, record.Value, record.Time, record.headers) }

// ForwardValue passes a record on with another value.
func (p *Port) ForwardValue(record *Record, value []byte) {
	p.push(record.Key, value, record.Time, record.headers)
}

func (p *Port) push(key, value []byte, time int64, headers []byte) {
	if p.discard {
		return
	}
	if p.count == 0 {
		p.index = appendU32(p.index[:0], 0)
	}
	data := append(p.data, key...)
	middle := len(data)
	data = append(data, value...)
	p.data = data
	p.index = binary.LittleEndian.AppendUint64(p.index, uint64(middle)|uint64(len(data))<<32)
	p.times = binary.LittleEndian.AppendUint64(p.times, uint64(time))
	if len(key) == 0 || value == nil || len(headers) > 0 || p.hasAux {
		p.pushAux(key, value, headers)
	}
	p.count++
	if len(data)+len(p.headers) >= chunkBytes && !p.whole {
		p.emit(p.number, p.batch())
		p.reset()
	}
}

// pushAux adds what only few records have: marks, and headers.
func (p *Port) pushAux(key, value, headers []byte) {
	var mark byte
	if key != nil && len(key) == 0 {
		mark |= markKeyPresent
	}
	if value == nil {
		mark |= markValueNull
	}
	if mark != 0 || len(p.marks) > 0 {
		if len(p.marks) == 0 {
			p.marks = append(p.marks, make([]byte, p.count)...)
		}
		p.marks = append(p.marks, mark)
		p.hasAux = true
	}
	if len(headers) > 0 || len(p.headerIndex) > 0 {
		if len(p.headerIndex) == 0 {
			p.headerIndex = append(p.headerIndex, make([]byte, 4*(p.count+1))...)
		}
		p.headers = append(p.headers, headers...)
		p.headerIndex = appendU32(p.headerIndex, len(p.headers))
		p.hasAux = true
	}
}

func (p *Port) batch() batch {
	if p.count == 0 {
		return batch{}
	}
	var aux []byte
	if len(p.marks) > 0 {
		aux = appendU32(binary.LittleEndian.AppendUint16(aux, tagMarks), len(p.marks))
		aux = append(aux, p.marks...)
	}
	if len(p.headerIndex) > 0 {
		aux = appendU32(binary.LittleEndian.AppendUint16(aux, tagHeaders), len(p.headerIndex)+len(p.headers))
		aux = append(append(aux, p.headerIndex...), p.headers...)
	}
	return batch{Count: uint32(p.count), Data: p.data, Index: p.index, Times: p.times, Aux: aux}
}

// reserve makes room for about as much as comes in.
func (p *Port) reserve(bytes, count int) {
	p.data = slices.Grow(p.data[:0], min(bytes, chunkBytes))
	p.index = slices.Grow(p.index[:0], 4*(2*count+1))
	p.times = slices.Grow(p.times[:0], 8*count)
}

// reset empties the columns; their memory serves again.
func (p *Port) reset() {
	p.count, p.discard, p.hasAux = 0, false, false
	p.data, p.index, p.times = p.data[:0], p.index[:0], p.times[:0]
	p.marks, p.headerIndex, p.headers = p.marks[:0], p.headerIndex[:0], p.headers[:0]
}

// Output is where records go: the main output, and side outputs.
type Output struct {
	Port
	sides []Port
}

// Side gives side output i, as counted in [Info].SideOutputs.
func (o *Output) Side(i int) *Port { return &o.sides[i] }
