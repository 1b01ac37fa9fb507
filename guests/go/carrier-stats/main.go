// Running departure delays of each carrier and origin: for every flight one line
// carrier,origin,count,sum_dep_delay,max_dep_delay, after this flight. Delays are whole minutes. The same as guests/carrier-stats,
// down to the state that it keeps.
//
// Input: lines of the flights file, keyed carrier,origin, as parse-flights gives them.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

// Where the delay stands in a line, and how many fields a line has.
const (
	depDelay = 5
	fields   = 19
)

type carrierStats struct {
	line []byte
}

type stats struct {
	count    uint64
	sum, max int64
}

func init() { weir.Register(&carrierStats{}) }

func main() {}

func (c *carrierStats) Info() weir.Info {
	return weir.Info{Name: "carrier-stats", Version: "0.1.0", States: []weir.State{{Name: "delays", Version: 1}}}
}

func (c *carrierStats) Process(record *weir.Record, out *weir.Output) error {
	delay, err := delayOf(record.Value)
	if err != nil {
		return err
	}
	state := record.State(0)
	now, err := decode(state.Get())
	if err != nil {
		return err
	}
	if now.count == 0 || delay > now.max {
		now.max = delay
	}
	now.count++
	now.sum += delay
	state.Set(now.encode())
	c.line = append(append(c.line[:0], record.Key...), ',')
	c.line = append(strconv.AppendUint(c.line, now.count, 10), ',')
	c.line = append(strconv.AppendInt(c.line, now.sum, 10), ',')
	c.line = strconv.AppendInt(c.line, now.max, 10)
	out.Emit(record.Key, c.line, record.Time)
	return nil
}

func decode(stored []byte) (stats, error) {
	switch len(stored) {
	case 0:
		return stats{}, nil
	case 24:
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(stored[8*i:]) }
		return stats{word(0), int64(word(1)), int64(word(2))}, nil
	}
	return stats{}, fmt.Errorf("state delays holds %d bytes", len(stored))
}

func (s stats) encode() []byte {
	stored := make([]byte, 0, 24)
	for _, word := range [...]uint64{s.count, uint64(s.sum), uint64(s.max)} {
		stored = binary.LittleEndian.AppendUint64(stored, word)
	}
	return stored
}

// delayOf gives the delay of a flight's line.
func delayOf(line []byte) (int64, error) {
	var delay []byte
	count := 0
	for rest, more := line, true; more; count++ {
		var field []byte
		var ok bool
		if field, rest, more, ok = nextField(rest); !ok {
			return 0, weir.BadRecord("a quoted field does not end with its quote")
		}
		if count == depDelay {
			delay = field
		}
	}
	if count != fields {
		return 0, weir.BadRecord(fmt.Sprintf("%d fields, a flight has %d", count, fields))
	}
	text := delay
	if len(text) >= 2 && text[0] == '"' {
		text = bytes.ReplaceAll(text[1:len(text)-1], []byte(`""`), []byte(`"`))
	}
	if number, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return number, nil
	}
	// Above 2^53 a float no longer tells whole numbers apart.
	if number, err := strconv.ParseFloat(string(text), 64); err == nil && math.Abs(number) < 1<<53 {
		return int64(number), nil
	}
	return 0, weir.BadRecord(fmt.Sprintf("dep_delay '%s' is not a number", delay))
}

// nextField takes a field off the front of a line, quotes and all: the field, the rest, whether there is one, and whether the
// field's quotes are right.
func nextField(line []byte) (field, rest []byte, more, ok bool) {
	end := bytes.IndexByte(line, ',')
	if len(line) > 0 && line[0] == '"' {
		for end = 1; ; end++ {
			quote := bytes.IndexByte(line[end:], '"')
			if quote < 0 {
				return nil, nil, false, false
			}
			if end += quote + 1; end == len(line) || line[end] == ',' {
				break
			} else if line[end] != '"' {
				return nil, nil, false, false
			}
		}
	}
	if end < 0 || end == len(line) {
		return line, nil, false, true
	}
	return line[:end], line[end+1:], true, true
}
