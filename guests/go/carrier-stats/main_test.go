package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

func line(delay string) string {
	return fmt.Sprintf("2013,1,1,517,515,%s,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z", delay)
}

func TestEachFlightGivesTheRunningValuesOfItsKey(t *testing.T) {
	flights := []weir.Emitted{
		weir.Text("UA,EWR", line("-3"), 1), weir.Text("B6,JFK", line("2.0"), 1),
		weir.Text("UA,EWR", line("-5"), 1), weir.Text("UA,EWR", line(`"7"`), 1),
	}
	for _, size := range []int{1, 4} {
		harness, err := weir.OpenHarness(&carrierStats{}, "{}")
		if err != nil {
			t.Fatal(err)
		}
		for batch := range slices.Chunk(flights, size) {
			if err := harness.Send(0, batch...); err != nil {
				t.Fatal(err)
			}
		}
		var lines []string
		for _, record := range harness.Take(0) {
			lines = append(lines, string(record.Value))
		}
		if want := []string{"UA,EWR,1,-3,-3", "B6,JFK,1,2,2", "UA,EWR,2,-8,-3", "UA,EWR,3,-1,7"}; !slices.Equal(lines, want) {
			t.Errorf("batches of %d: %q, not %q", size, lines, want)
		}
	}
}

func TestBadLinesAreNamedAndChangeNothing(t *testing.T) {
	harness, _ := weir.OpenHarness(&carrierStats{}, "{}")
	err := harness.Send(0, weir.Text("k", line("1"), 1), weir.Text("k", line("NA"), 1), weir.Text("k", "1,2", 1), weir.Text("k", `"1,2`, 1))
	var bad weir.BadRecords
	if !errors.As(err, &bad) || len(bad) != 3 {
		t.Fatal(err)
	}
	for index, words := range map[int]string{1: "dep_delay 'NA'", 2: "2 fields", 3: "quote"} {
		if !strings.Contains(bad[index], words) {
			t.Errorf("record %d: %q", index, bad[index])
		}
	}
	if len(harness.Take(0)) > 0 || harness.State(0, "k") != nil {
		t.Error("a call that failed changed something")
	}
}

// The fields of every line, whatever bytes stand at which place of a word, are those that a plain reader of fields finds.
func TestFieldsAreFoundAtAnyPlaceOfAWord(t *testing.T) {
	parts := []string{"", "a", "\"b,c\"", "d\"", "\"e\"\"f\"", "ghijklmnopq", "\xac\xa2"}
	for seed := range 5000 {
		var fields []string
		for n := seed; n > 0; n /= len(parts) {
			fields = append(fields, parts[n%len(parts)])
		}
		if len(fields) == 0 {
			continue
		}
		for wanted, field := range fields {
			found, count, ok := fieldOf([]byte(strings.Join(fields, ",")), wanted)
			if !ok || count != len(fields) || string(found) != field {
				t.Fatalf("%q: field %d is %q of %d", fields, wanted, found, count)
			}
		}
	}
	for _, line := range []string{`a,b,c,d,e,f,"g`, `aaaaaaaaaaaa,"b"c`, `"`} {
		if _, _, ok := fieldOf([]byte(line), 0); ok {
			t.Error(line)
		}
	}
}
