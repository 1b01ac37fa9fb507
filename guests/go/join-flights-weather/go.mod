module github.com/weir-dataflow/weir/guests/go/join-flights-weather

go 1.24

require github.com/weir-dataflow/weir/sdk/go v0.0.0

replace github.com/weir-dataflow/weir/sdk/go => ../../../sdk/go
