module github.com/weir-dataflow/weir/sdk/go

go 1.24
