package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

func row(temp, wind string) string {
	return fmt.Sprintf("EWR,2013,1,1,1,%s,26.06,59.37,270,%s,NA,0,1012,10,2013-01-01T06:00:00Z", temp, wind)
}

func values(records []weir.Emitted) []string {
	var texts []string
	for _, record := range records {
		texts = append(texts, fmt.Sprintf("%s %s %d", record.Key, record.Value, record.Time))
	}
	return texts
}

func TestFlightsFindTheirWeatherWhicheverComesFirst(t *testing.T) {
	harness, err := weir.OpenHarness(join{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		harness.Send(flights, weir.Text("a", "flight 1", 5), weir.Text("b", "flight 2", 6), weir.Text("a", "flight 3", 7)),
		harness.Send(weather, weir.Text("a", row("39.02", "10.357"), 1), weir.Text("c", row("NA", "NA"), 1)),
		harness.Send(flights, weir.Text("c", "flight 4", 8), weir.Text("a", "flight 5", 9)),
		harness.Send(weather, weir.Text("a", row("39.02", "10.357"), 1)),
	)
	want := []string{"a flight 1,39.02,10.357 5", "a flight 3,39.02,10.357 7", "c flight 4,NA,NA 8", "a flight 5,39.02,10.357 9"}
	if got := values(harness.Take(0)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
	var bad weir.BadRecords
	err = harness.Send(weather, weir.Text("a", row("1", "2"), 1), weir.Text("d", "1,2", 1))
	if !errors.As(err, &bad) || bad[0] != "a second weather for this origin and hour: temp,wind_speed 1,2, before it 39.02,10.357" || len(bad) != 2 {
		t.Error(err)
	}
	if err := harness.End(); err != nil {
		t.Error(err)
	}
	if got := values(harness.Take(1)); !slices.Equal(got, []string{"b flight 2 6"}) || harness.State(1, "b") != nil {
		t.Errorf("%q", got)
	}
}
