// Looks at the world that a Go plugin finds: says what time, files and environment are, and keeps enough memory busy to notice if
// somebody else wrote into it. State is every value that its key had, and one that is only read when it is asked for.
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	weir "github.com/weir-dataflow/weir/sdk/go"
	_ "github.com/weir-dataflow/weir/sdk/go/keyedstate"
)

type probe struct{ kept map[string][]byte }

func init() { weir.Register(&probe{kept: map[string][]byte{}}) }

func main() {}

func (*probe) Info() weir.Info {
	return weir.Info{Name: "probe", Version: "0.1.0", States: []weir.State{
		{Name: "rare", Version: 1, OnDemand: true}, {Name: "all", Version: 1},
	}}
}

func (p *probe) Process(record *weir.Record, out *weir.Output) error {
	answer := ""
	switch string(record.Value) {
	case "sleep":
		begun, done := time.Now(), make(chan bool)
		go func() {
			time.Sleep(time.Hour)
			done <- true
		}()
		<-done
		answer = fmt.Sprint("slept ", time.Since(begun), " until ", time.Now().UTC().Format(time.RFC3339))
	case "world":
		_, err := os.ReadFile("/etc/passwd")
		fmt.Fprintln(os.Stderr, "seen on standard error")
		answer = fmt.Sprint(len(os.Args), " ", os.Environ(), " ", err != nil)
	case "panic":
		panic("told to")
	default:
		if rest, is := bytes.CutPrefix(record.Value, []byte("demand")); is {
			answer = demand(record.State(0), rest)
		} else {
			answer = p.grow(record.Value)
		}
	}
	state := record.State(1)
	state.Set(append(append([]byte(nil), state.Get()...), record.Value...))
	out.Emit(record.Key, []byte(answer), record.Time)
	return nil
}

// demand says what the state on demand held, and puts the next there, or nothing.
func demand(rare *weir.Value, next []byte) string {
	held := fmt.Sprintf("held %q", rare.Get())
	if len(next) > 0 {
		rare.Set(next)
	} else {
		rare.Delete()
	}
	return held
}

// grow keeps many copies of a value of each length, and checks all of them.
func (p *probe) grow(value []byte) string {
	for i := range 64 {
		p.kept[fmt.Sprint(len(p.kept), i)] = append([]byte(nil), value...)
	}
	for _, kept := range p.kept {
		for _, byte := range kept {
			if byte != 'x' {
				return "memory is damaged"
			}
		}
	}
	return fmt.Sprint("kept ", len(p.kept))
}
