// Counts the records of each key in tumbling windows of event time: one result for each window, when the watermark passes it. The same
// as guests/window-count, down to the state that it keeps.
//
// Config: {"size_ms": 60000}. Output: the key, and {"key":…,"start":…,"count":…} with the window's last millisecond as its time. What
// comes after its window has closed goes to the side output late, as it came.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	weir "github.com/weir-dataflow/weir/sdk/go"
	_ "github.com/weir-dataflow/weir/sdk/go/timers"
)

type windowCount struct{ sizeMs int64 }

// window is an open one of a key.
type window struct {
	start int64
	count uint64
}

func init() { weir.Register(&windowCount{}) }

func main() {}

func (*windowCount) Info() weir.Info {
	return weir.Info{
		Name: "window-count", Version: "0.1.0",
		States:      []weir.State{{Name: "windows", Version: 1}},
		SideOutputs: []string{"late"},
	}
}

func (w *windowCount) Open(_ weir.Task, config []byte) error {
	var settings struct {
		SizeMs *int64 `json:"size_ms"`
	}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if settings.SizeMs == nil {
		return errors.New("config: size_ms is missing")
	}
	if w.sizeMs = *settings.SizeMs; w.sizeMs <= 0 {
		return fmt.Errorf("config: size_ms is %d: it must be above 0", w.sizeMs)
	}
	return nil
}

// lastMs is when a window closes: its last millisecond. False: it would lie beyond all times.
func (w *windowCount) lastMs(start int64) (int64, bool) {
	return start + w.sizeMs - 1, start <= math.MaxInt64-(w.sizeMs-1)
}

func (w *windowCount) Process(record *weir.Record, out *weir.Output) error {
	into := record.Time % w.sizeMs
	if into < 0 {
		into += w.sizeMs
	}
	start := record.Time - into
	lastMs, ok := w.lastMs(start)
	if !ok {
		return weir.BadRecord("its window has no end")
	}
	timers := record.Timers()
	if lastMs <= timers.Watermark() {
		out.Side(0).Forward(record)
		return nil
	}
	open, err := decode(record.State(0).Get())
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(open, func(own window) bool { return own.start == start }); at >= 0 {
		open[at].count++
	} else {
		open = append(open, window{start, 1})
		timers.SetEventTime(lastMs, nil)
	}
	record.State(0).Set(encode(open))
	return nil
}

func (w *windowCount) OnTimer(timer *weir.Timer, out *weir.Output) error {
	open, err := decode(timer.State(0).Get())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(open, func(own window) bool {
		lastMs, ok := w.lastMs(own.start)
		return ok && lastMs == timer.Time
	})
	if at < 0 {
		return errors.New("a timer of no window has fired")
	}
	closed := open[at]
	open[at] = open[len(open)-1]
	if open = open[:len(open)-1]; len(open) > 0 {
		timer.State(0).Set(encode(open))
	} else {
		timer.State(0).Delete()
	}
	line := appendString([]byte(`{"key":`), timer.Key)
	line = strconv.AppendInt(append(line, `,"start":`...), closed.start, 10)
	line = strconv.AppendUint(append(line, `,"count":`...), closed.count, 10)
	out.Emit(timer.Key, append(line, '}'), timer.Time)
	return nil
}

// decode reads what the Rust SDK writes for a Vec<(i64, u64)>: how many, then each.
func decode(stored []byte) ([]window, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	if len(stored) < 4 || uint64(len(stored)) != 4+16*uint64(binary.LittleEndian.Uint32(stored)) {
		return nil, fmt.Errorf("state windows holds %d bytes", len(stored))
	}
	var open []window
	for each := range slices.Chunk(stored[4:], 16) {
		open = append(open, window{int64(binary.LittleEndian.Uint64(each)), binary.LittleEndian.Uint64(each[8:])})
	}
	return open, nil
}

func encode(open []window) []byte {
	stored := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+16*len(open)), uint32(len(open)))
	for _, own := range open {
		stored = binary.LittleEndian.AppendUint64(stored, uint64(own.start))
		stored = binary.LittleEndian.AppendUint64(stored, own.count)
	}
	return stored
}

// appendString appends a text in JSON's form. encoding/json escapes more than must be.
func appendString(line, text []byte) []byte {
	line = append(line, '"')
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch short := bytes.IndexByte([]byte("\b\t\n\f\r\"\\"), text[0]); {
		case short >= 0:
			line = append(line, '\\', `btnfr"\`[short])
		case r < ' ':
			line = fmt.Appendf(line, `\u%04x`, r)
		default:
			line = utf8.AppendRune(line, r)
		}
		text = text[size:]
	}
	return append(line, '"')
}
