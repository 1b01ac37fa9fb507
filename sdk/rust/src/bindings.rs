//! What `wit_bindgen` makes of the contract: wire types, imports, and the macros that export a plugin.
//!
//! The worlds are bound one by one, so that a component exports just what its author wrote; their types are the same.
//! Not for authors: everything here has a friendlier form in the modules beside it.

/// An operator without calls at the end of its input.
pub mod operator {
    #![allow(missing_docs, reason = "generated from wit/, where every item is documented")]
    wit_bindgen::generate!({
        path: "../../wit",
        world: "weir:plugin/operator-plugin",
        pub_export_macro: true,
        default_bindings_module: "weir_sdk::bindings::operator",
        generate_all,
    });
}

/// The calls at the end of bounded input, exported in addition to an operator.
pub mod end_of_input {
    #![allow(missing_docs, reason = "generated from wit/, where every item is documented")]
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package weir:sdk; world end-of-input-only { export weir:plugin/end-of-input@1.0.0; }",
        world: "weir:sdk/end-of-input-only",
        pub_export_macro: true,
        default_bindings_module: "weir_sdk::bindings::end_of_input",
        with: { "weir:plugin/types@1.0.0": crate::bindings::operator::weir::plugin::types },
    });
}

/// Timers, exported and used in addition to an operator.
pub mod timers {
    #![allow(missing_docs, reason = "generated from wit/, where every item is documented")]
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package weir:sdk; world timers-only { import weir:plugin/timer-service@1.0.0; export weir:plugin/timers@1.0.0; }",
        world: "weir:sdk/timers-only",
        pub_export_macro: true,
        default_bindings_module: "weir_sdk::bindings::timers",
        with: { "weir:plugin/types@1.0.0": crate::bindings::operator::weir::plugin::types },
        generate_all,
    });
}

/// State of the operator itself, exported in addition to an operator.
pub mod checkpointed {
    #![allow(missing_docs, reason = "generated from wit/, where every item is documented")]
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package weir:sdk; world checkpointed-only { export weir:plugin/checkpointed@1.0.0; }",
        world: "weir:sdk/checkpointed-only",
        pub_export_macro: true,
        default_bindings_module: "weir_sdk::bindings::checkpointed",
        with: { "weir:plugin/types@1.0.0": crate::bindings::operator::weir::plugin::types },
    });
}

/// Both halves of a transactional sink.
pub mod sink {
    #![allow(missing_docs, reason = "generated from wit/, where every item is documented")]
    wit_bindgen::generate!({
        path: "../../wit",
        world: "weir:plugin/sink-plugin",
        pub_export_macro: true,
        default_bindings_module: "weir_sdk::bindings::sink",
        with: {
            "weir:plugin/types@1.0.0": crate::bindings::operator::weir::plugin::types,
            "weir:plugin/host@1.0.0": crate::bindings::operator::weir::plugin::host,
            "weir:plugin/files@1.0.0": crate::bindings::operator::weir::plugin::files,
            "weir:plugin/http@1.0.0": crate::bindings::operator::weir::plugin::http,
        },
    });
}

pub use operator::exports::weir::plugin::operator::{Descriptor, StateDesc};
pub use operator::weir::plugin::{files, host, http, keyed_state, list_state, map_state, types};
