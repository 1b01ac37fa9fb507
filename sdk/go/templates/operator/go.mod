module {{name_snake}}

go 1.24

require github.com/weir-dataflow/weir/sdk/go v0.0.0

replace github.com/weir-dataflow/weir/sdk/go => ./weir-sdk
