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
	"math/bits"
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
	stored, err := record.State(0).Fixed(24)
	if err != nil {
		return err
	}
	now := decode(stored)
	if now.count == 0 || delay > now.max {
		now.max = delay
	}
	now.count++
	now.sum += delay
	now.encode(stored)
	line := append(append(c.line[:0], record.Key...), ',')
	line = append(weir.AppendUint(line, now.count), ',')
	line = append(weir.AppendInt(line, now.sum), ',')
	c.line = weir.AppendInt(line, now.max)
	out.Emit(record.Key, c.line, record.Time)
	return nil
}

// decode reads three words; what is all zero was never there.
func decode(stored []byte) stats {
	_ = stored[23]
	return stats{
		binary.LittleEndian.Uint64(stored),
		int64(binary.LittleEndian.Uint64(stored[8:])),
		int64(binary.LittleEndian.Uint64(stored[16:])),
	}
}

func (s stats) encode(stored []byte) {
	_ = stored[23]
	binary.LittleEndian.PutUint64(stored, s.count)
	binary.LittleEndian.PutUint64(stored[8:], uint64(s.sum))
	binary.LittleEndian.PutUint64(stored[16:], uint64(s.max))
}

// delayOf gives the delay of a flight's line.
func delayOf(line []byte) (int64, error) {
	delay, count, ok := fieldOf(line, depDelay)
	if !ok {
		return 0, weir.BadRecord("a quoted field does not end with its quote")
	}
	if count != fields {
		return 0, weir.BadRecord(fmt.Sprintf("%d fields, a flight has %d", count, fields))
	}
	if number, ok := wholeNumber(delay); ok {
		return number, nil
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

// wholeNumber reads what nearly every delay is: a sign, maybe, and a few digits.
func wholeNumber(text []byte) (number int64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	for _, digit := range text {
		if digit -= '0'; digit > 9 {
			return 0, false
		}
		number = number*10 + int64(digit)
	}
	if negative {
		number = -number
	}
	return number, len(text) > 0 && len(text) < 18
}

// fieldOf finds a field of a line, quotes and all: the field, how many fields there are, and whether their quotes are right.
//
// Sixteen bytes a round: in Wasm each round of a loop in Go is a jump through a table, and a call costs several of them.
func fieldOf(line []byte, wanted int) (field []byte, count int, ok bool) {
	start, i := 0, 0
	var quotes uint64
	for ; i+8 <= len(line) && count <= wanted; i += 8 {
		word := binary.LittleEndian.Uint64(line[i:])
		quotes |= bytesEqualTo(word, '"')
		commas := bytesEqualTo(word, ',')
		for ; commas != 0 && count <= wanted; commas &= commas - 1 {
			comma := i + bits.TrailingZeros64(commas)/8
			if count == wanted {
				field = line[start:comma]
			}
			count, start = count+1, comma+1
		}
		count += bits.OnesCount64(commas)
	}
	for ; i+16 <= len(line); i += 16 {
		first, second := binary.LittleEndian.Uint64(line[i:]), binary.LittleEndian.Uint64(line[i+8:])
		quotes |= bytesEqualTo(first, '"') | bytesEqualTo(second, '"')
		count += bits.OnesCount64(bytesEqualTo(first, ',')) + bits.OnesCount64(bytesEqualTo(second, ','))
	}
	for ; i < len(line) && len(line) >= 8; i += 8 {
		// The last eight bytes may overlap with those before: what was looked at is shifted out.
		at := min(i, len(line)-8)
		word := binary.LittleEndian.Uint64(line[at:]) >> (8 * uint(i-at) & 63)
		quotes |= bytesEqualTo(word, '"')
		count += bits.OnesCount64(bytesEqualTo(word, ','))
	}
	if quotes != 0 || field == nil {
		return quotedFieldOf(line, wanted)
	}
	return field, count + 1, true
}

// quotedFieldOf is fieldOf, byte by byte.
func quotedFieldOf(line []byte, wanted int) (field []byte, count int, ok bool) {
	start := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == ',':
			if count == wanted {
				field = line[start:i]
			}
			count, start = count+1, i+1
		case line[i] == '"' && i == start:
			if i = quoteEnd(line, i+1); i < 0 {
				return nil, 0, false
			}
		}
	}
	if count == wanted {
		field = line[start:]
	}
	return field, count + 1, true
}

// bytesEqualTo sets the highest bit of each byte of a word that equals this one.
func bytesEqualTo(word uint64, wanted byte) uint64 {
	const ones, low = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	word ^= ones * uint64(wanted)
	return ^((word&low + low) | word | low)
}

// quoteEnd gives where the quote is that ends a quoted field, which goes on at i; negative if it does not end with one.
func quoteEnd(line []byte, i int) int {
	for ; i < len(line); i++ {
		switch {
		case line[i] != '"':
		case i+1 == len(line) || line[i+1] == ',':
			return i
		case line[i+1] != '"':
			return -1
		default:
			i++
		}
	}
	return -1
}
