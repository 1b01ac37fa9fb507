// Package keyedstate makes a plugin import the contract's state on demand: import it for its effect beside an operator that declares
// a state with OnDemand.
//
//	import _ "github.com/weir-dataflow/weir/sdk/go/keyedstate"
package keyedstate

import "github.com/weir-dataflow/weir/sdk/go/internal/abi"

func init() { abi.HasKeyedState = true }
