package weir

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// twoDigits holds 00, 01 … 99.
var twoDigits [100]uint16

func init() {
	for i := range twoDigits {
		twoDigits[i] = uint16('0'+i/10) | uint16('0'+i%10)<<8
	}
}

// AppendInt appends a number in decimal, as strconv.AppendInt does. That one is made for numbers of 64 bits, and takes twice as long in
// Wasm for those that have 32, as nearly all have.
func AppendInt(to []byte, number int64) []byte {
	if number < 0 {
		// The least number is its own negative, and right as an unsigned one.
		return AppendUint(append(to, '-'), uint64(-number))
	}
	return AppendUint(to, uint64(number))
}

// AppendUint appends a number in decimal, as strconv.AppendUint does.
func AppendUint(to []byte, number uint64) []byte {
	if number > math.MaxUint32 {
		return strconv.AppendUint(to, number, 10)
	}
	const most = 10
	if cap(to)-len(to) < most {
		to = slices.Grow(to, most)
	}
	rest, digits := uint32(number), most
	switch {
	case rest < 10:
		digits = 1
	case rest < 100:
		digits = 2
	case rest < 1_000:
		digits = 3
	case rest < 10_000:
		digits = 4
	case rest < 100_000:
		digits = 5
	case rest < 1_000_000:
		digits = 6
	case rest < 10_000_000:
		digits = 7
	case rest < 100_000_000:
		digits = 8
	case rest < 1_000_000_000:
		digits = 9
	}
	to = to[:len(to)+digits]
	at := len(to)
	for ; rest >= 100; rest /= 100 {
		at -= 2
		binary.LittleEndian.PutUint16(to[at:], twoDigits[rest%100])
	}
	if rest >= 10 {
		binary.LittleEndian.PutUint16(to[at-2:], twoDigits[rest])
	} else {
		to[at-1] = '0' + byte(rest)
	}
	return to
}
