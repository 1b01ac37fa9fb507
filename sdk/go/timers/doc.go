// Package timers makes a plugin export the contract's timers: import it for its effect beside an operator that implements
// weir.TimerOperator.
//
//	import _ "github.com/weir-dataflow/weir/sdk/go/timers"
package timers

import "github.com/weir-dataflow/weir/sdk/go/internal/abi"

func init() { abi.HasTimers = true }
