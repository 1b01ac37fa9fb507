// Joins flights (input 0) with the weather at their origin and hour (input 1); both are keyed origin,time_hour. The same as
// guests/join-flights-weather, down to the state that it keeps.
//
// Main output: the flight's line, then ,temp,wind_speed as the weather file writes them. Whichever side comes first waits in state. When
// both inputs have ended, flights still without weather go to the side output unmatched, as they were.
//
// A key has one weather. A second row that says the same is ignored; one that says something else is a bad record, since flights may
// have gone out with the first one.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	weir "github.com/weir-dataflow/weir/sdk/go"
	_ "github.com/weir-dataflow/weir/sdk/go/endofinput"
)

// Inputs, in the order of the job file's from; states, and the side output.
const (
	flights = 0
	weather = 1

	weatherState = 0
	waitingState = 1

	unmatched = 0
)

// Columns of a weather row, and how many it has.
const (
	temp          = 5
	windSpeed     = 9
	weatherFields = 15
)

type join struct{}

func init() { weir.Register(join{}) }

func main() {}

func (join) Info() weir.Info {
	return weir.Info{
		Name: "join-flights-weather", Version: "0.1.0", Inputs: 2,
		States:      []weir.State{{Name: "weather", Version: 1}, {Name: "waiting-flights", Version: 1}},
		SideOutputs: []string{"unmatched"},
	}
}

func (join) Process(record *weir.Record, out *weir.Output) error {
	known, waiting := record.State(weatherState), record.State(waitingState)
	switch record.Port {
	case flights:
		if stored := known.Get(); stored != nil {
			out.Emit(record.Key, append(bytes.Clone(record.Value), stored[4:]...), record.Time)
			return nil
		}
		waiting.Set(add(waiting.Get(), record))
	case weather:
		row, err := tempAndWind(record.Value)
		if err != nil {
			return err
		}
		if stored := known.Get(); stored != nil {
			if !bytes.Equal(stored[4:], row) {
				return weir.BadRecord(fmt.Sprintf("a second weather for this origin and hour: temp,wind_speed %s, before it %s", row[1:], stored[5:]))
			}
			return nil
		}
		err = each(waiting.Get(), func(time int64, flight []byte) {
			out.Emit(record.Key, append(bytes.Clone(flight), row...), time)
		})
		if err != nil {
			return err
		}
		waiting.Delete()
		known.Set(append(binary.LittleEndian.AppendUint32(nil, uint32(len(row))), row...))
	default:
		return fmt.Errorf("input %d: the join has flights and weather", record.Port)
	}
	return nil
}

// OnEndKey: flights that still wait will find no weather.
func (join) OnEndKey(key *weir.Keyed, out *weir.Output) error {
	waiting := key.State(waitingState)
	err := each(waiting.Get(), func(time int64, flight []byte) { out.Side(unmatched).Emit(key.Key, flight, time) })
	waiting.Delete()
	return err
}

// add appends a flight to those that wait: how many, then of each its time, its length and its line.
func add(waiting []byte, flight *weir.Record) []byte {
	if waiting == nil {
		waiting = make([]byte, 4)
	}
	waiting = bytes.Clone(waiting)
	binary.LittleEndian.PutUint32(waiting, binary.LittleEndian.Uint32(waiting)+1)
	waiting = binary.LittleEndian.AppendUint64(waiting, uint64(flight.Time))
	waiting = binary.LittleEndian.AppendUint32(waiting, uint32(len(flight.Value)))
	return append(waiting, flight.Value...)
}

// each goes through flights that wait.
func each(waiting []byte, do func(time int64, flight []byte)) error {
	if waiting == nil {
		return nil
	}
	for rest := waiting[4:]; len(rest) > 0; {
		if len(rest) < 12 || len(rest)-12 < int(binary.LittleEndian.Uint32(rest[8:])) {
			return errors.New("state waiting-flights holds something else")
		}
		end := 12 + int(binary.LittleEndian.Uint32(rest[8:]))
		do(int64(binary.LittleEndian.Uint64(rest)), rest[12:end])
		rest = rest[end:]
	}
	return nil
}

// tempAndWind gives ,temp,wind_speed of a weather row. Its fields are not quoted.
func tempAndWind(row []byte) ([]byte, error) {
	fields := bytes.Split(row, []byte(","))
	if len(fields) != weatherFields {
		return nil, weir.BadRecord(fmt.Sprintf("%d fields, a weather row has %d", len(fields), weatherFields))
	}
	return bytes.Join([][]byte{nil, fields[temp], fields[windSpeed]}, []byte(",")), nil
}
