// {{name}}: passes each value on in capital letters.
package main

import (
	"bytes"
	"unicode/utf8"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

type operator struct{}

func init() { weir.Register(operator{}) }

func main() {}

func (operator) Info() weir.Info { return weir.Info{Name: "{{name}}", Version: "0.1.0"} }

func (operator) Process(record *weir.Record, out *weir.Output) error {
	if !utf8.Valid(record.Value) {
		// The job file's on_bad_record says what becomes of it.
		return weir.BadRecord("the value is no text")
	}
	// Key, event time and headers stay.
	out.ForwardValue(record, bytes.ToUpper(record.Value))
	return nil
}
