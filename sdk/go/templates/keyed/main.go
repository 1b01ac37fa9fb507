// {{name}}: counts the records of each key, and gives the count with every record.
package main

import (
	"encoding/binary"
	"strconv"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

// operator holds nothing: the host keeps the state, and nothing that must survive belongs into its fields.
type operator struct{}

func init() { weir.Register(operator{}) }

func main() {}

func (operator) Info() weir.Info {
	return weir.Info{
		Name: "{{name}}", Version: "0.1.0",
		// A checkpoint finds the state by its name.
		States: []weir.State{{Name: "count", Version: 1}},
	}
}

func (operator) Process(record *weir.Record, out *weir.Output) error {
	state := record.State(0)
	var count uint64
	if stored := state.Get(); stored != nil {
		count = binary.LittleEndian.Uint64(stored)
	}
	count++
	state.Set(binary.LittleEndian.AppendUint64(nil, count))
	out.Emit(record.Key, strconv.AppendUint(nil, count, 10), record.Time)
	return nil
}
