//! Test guests written by hand: core Wasm text, embedded into a world of ours and turned into a component.
//!
//! Every function of the contract has a body that does the least; a test replaces the ones that it is about. Layouts are
//! those of the canonical ABI; results are written at 64, below all data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract.
pub fn wit_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Where a guest's static bytes begin.
const IMAGE: u32 = 4096;
/// Where allocation begins, after two pages.
const HEAP: u32 = 131_072;

/// Locals of `process`, as test bodies name them.
const PROCESS: &str = "(param $port i32) (param $count i32) (param $data i32) (param $data_len i32) (param $index i32) \
    (param $index_len i32) (param $times i32) (param $times_len i32) (param $aux i32) (param $aux_len i32) \
    (param $key_of i32) (param $key_of_len i32) (param $states i32) (param $states_len i32) (result i32)";
const WRITE: &str = "(param $count i32) (param $data i32) (param $data_len i32) (param $index i32) (param $index_len i32) \
    (param $times i32) (param $times_len i32) (param $aux i32) (param $aux_len i32) (result i32)";
const LIST: &str = "(param $list i32) (param $len i32) (result i32)";

/// Imports that a body may need, by the interface and name.
const IMPORTS: &[(&str, &str, &str, &str)] = &[
    ("host", "log", "$log", "(param i32 i32 i32 i32)"),
    ("host", "emit", "$emit", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("keyed-state", "get-many", "$get_many", "(param i32 i32 i32 i32 i32 i32)"),
    ("keyed-state", "put-many", "$put_many", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("keyed-state", "delete-many", "$delete_many", "(param i32 i32 i32 i32 i32)"),
    ("list-state", "append-many", "$list_append", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("list-state", "get-many", "$list_get", "(param i32 i32 i32 i32 i32 i32)"),
    ("list-state", "get-page", "$list_page", "(param i32 i32 i32 i64 i32 i32)"),
    ("list-state", "clear-many", "$list_clear", "(param i32 i32 i32 i32 i32)"),
    ("map-state", "get-many", "$map_get", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("map-state", "put-many", "$map_put", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("map-state", "scan", "$map_scan", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("map-state", "clear-many", "$map_clear", "(param i32 i32 i32 i32 i32)"),
    ("timer-service", "register-many", "$register", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("timer-service", "delete-many", "$delete", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("timer-service", "current", "$current", "(param i32 i32) (result i64)"),
    ("files", "append", "$append", "(param i32 i32 i32 i32 i32 i32 i32)"),
    ("files", "sync", "$sync", "(param i32 i32 i32 i32 i32)"),
    ("files", "mkdir", "$mkdir", "(param i32 i32 i32 i32 i32)"),
];

/// A guest in the making.
pub struct Guest {
    world: &'static str,
    /// (export name, signature, body) of every function.
    functions: BTreeMap<String, (&'static str, String)>,
    /// Static bytes, from [`IMAGE`] on.
    image: Vec<u8>,
    imports: Vec<&'static str>,
    raw_imports: String,
    post_returns: BTreeMap<String, &'static str>,
    realloc: Option<&'static str>,
    version: &'static str,
    /// More fields of the module.
    extra: String,
    memory: String,
}

/// A state that a test operator declares: name, kind, prefetch.
pub type State = (&'static str, &'static str, bool);

impl Guest {
    /// An operator that echoes its input.
    pub fn operator(states: &[State], sides: &[&str]) -> Self {
        let mut guest = Guest::new("operator-plugin");
        let states: Vec<u8> = states.iter().flat_map(|state| guest.state(state)).collect();
        let sides: Vec<u8> = sides.iter().flat_map(|side| guest.pair(side.as_bytes())).collect();
        let mut descriptor = [guest.pair(b"test-plugin"), guest.pair(b"1.0.0")].concat();
        descriptor.extend(guest.list(&states, 24));
        descriptor.extend(guest.list(&sides, 8));
        descriptor.extend(0u32.to_le_bytes());
        let describe = guest.place(&descriptor);
        let operator = |name| format!("weir:plugin/operator@1.0.0#{name}");
        guest.function(operator("describe"), "(result i32)", format!("i32.const {describe}"));
        guest.function(operator("open"), "(param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)", "call $ok");
        guest.function(operator("process"), PROCESS, ECHO);
        guest.function(operator("close"), "", "");
        guest
    }

    /// An operator that also hears of the end.
    pub fn bounded(states: &[State]) -> Self {
        let mut guest = Guest::operator(states, &[]);
        guest.world = "bounded-operator-plugin";
        let end = |name| format!("weir:plugin/end-of-input@1.0.0#{name}");
        guest.function(end("on-end"), "(param $port i32) (result i32)", "call $empty");
        let keys = "(param $data i32) (param $data_len i32) (param $index i32) (param $index_len i32) (param $states i32) \
            (param $states_len i32) (result i32)";
        guest.function(end("on-end-keys"), keys, "call $empty");
        guest
    }

    /// An operator with timers, which echoes those that are due.
    pub fn timed(states: &[State]) -> Self {
        let mut guest = Guest::operator(states, &[]);
        guest.world = "timer-operator-plugin";
        let due = "(param $kind i32) (param $kind_len i32) (param $count i32) (param $data i32) (param $data_len i32) \
            (param $index i32) (param $index_len i32) (param $times i32) (param $times_len i32) (param $aux i32) \
            (param $aux_len i32) (param $key_of i32) (param $key_of_len i32) (param $states i32) (param $states_len i32) (result i32)";
        guest.function("weir:plugin/timers@1.0.0#on-timers".to_owned(), due, ECHO);
        guest
    }

    /// An operator with state of its own that gives these parts (mode, version, bytes), and takes any.
    pub fn checkpointed(states: &[State], parts: &[(&str, u32, &[u8])]) -> Self {
        let mut guest = Guest::operator(states, &[]);
        guest.world = "checkpointed-operator-plugin";
        let part = |guest: &mut Guest, (mode, version, bytes): &(&str, u32, &[u8])| {
            [guest.pair(mode.as_bytes()), version.to_le_bytes().to_vec(), guest.pair(bytes)].concat()
        };
        let list: Vec<u8> = parts.iter().flat_map(|given| part(&mut guest, given)).collect();
        let answer = [0u32.to_le_bytes().to_vec(), guest.list(&list, 20), 0u32.to_le_bytes().to_vec()].concat();
        let answer = guest.place(&answer);
        let own = |name| format!("weir:plugin/checkpointed@1.0.0#{name}");
        guest.function(own("snapshot"), "(result i32)", format!("i32.const {answer}"));
        guest.function(own("restore"), LIST, "call $ok");
        guest
    }

    /// A sink that prepares nothing and commits everything.
    pub fn sink() -> Self {
        let mut guest = Guest::new("sink-plugin");
        let mut descriptor = [guest.pair(b"test-sink"), guest.pair(b"1.0.0")].concat();
        descriptor.extend(guest.list(&1u32.to_le_bytes(), 4));
        let describe = guest.place(&descriptor);
        let writer = |name| format!("weir:plugin/sink-writer@1.0.0#{name}");
        guest.function(writer("describe"), "(result i32)", format!("i32.const {describe}"));
        guest.function(writer("open"), "(param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)", "call $ok");
        guest.function(writer("begin"), LIST, "call $ok");
        guest.function(writer("write"), WRITE, "call $ok");
        guest.function(writer("prepare"), "(param $list i32) (param $len i32) (param $end i32) (result i32)", "call $empty");
        guest.function(writer("close"), "", "");
        let committer = |name| format!("weir:plugin/sink-committer@1.0.0#{name}");
        guest.function(committer("open"), "(param i32 i32 i32 i32 i32 i32) (result i32)", "call $ok");
        guest.function(committer("commit"), LIST, "local.get $len call $outcomes");
        guest.function(committer("status"), LIST, "local.get $len call $outcomes");
        guest.function(committer("abort"), LIST, "local.get $len call $outcomes");
        guest.function(committer("list-dangling"), "(result i32)", "call $empty");
        guest.function(committer("forget"), LIST, "call $ok");
        guest.function(committer("close"), "", "");
        guest
    }

    fn new(world: &'static str) -> Self {
        Guest {
            world,
            functions: BTreeMap::new(),
            image: Vec::new(),
            imports: Vec::new(),
            raw_imports: String::new(),
            post_returns: BTreeMap::new(),
            realloc: None,
            version: "1.0.0",
            extra: String::new(),
            memory: "(memory (export \"memory\") 3)".into(),
        }
    }

    fn function(&mut self, name: String, signature: &'static str, body: impl Into<String>) {
        self.functions.insert(name, (signature, body.into()));
    }

    /// Replaces the body of a function, named `interface#function`.
    pub fn body(mut self, name: &str, body: impl Into<String>) -> Self {
        let (interface, function) = name.split_once('#').expect("interface#function");
        let name = format!("weir:plugin/{interface}@1.0.0#{function}");
        self.functions.get_mut(&name).expect("a function of the world").1 = body.into();
        self
    }

    /// Replaces the body of `operator.process`.
    pub fn process(self, body: impl Into<String>) -> Self {
        self.body("operator#process", body)
    }

    /// Imports a function by its WAT name.
    pub fn import(mut self, wat_name: &'static str) -> Self {
        self.imports.push(wat_name);
        self
    }

    /// Imports what the contract does not have.
    pub fn raw_import(mut self, wat: &str) -> Self {
        self.raw_imports.push_str(wat);
        self
    }

    /// Another version of the package in every name.
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Replaces the signature of a function, named `interface#function`.
    pub fn signature(mut self, name: &str, signature: &'static str) -> Self {
        let (interface, function) = name.split_once('#').expect("interface#function");
        let name = format!("weir:plugin/{interface}@1.0.0#{function}");
        self.functions.get_mut(&name).expect("a function of the world").0 = signature;
        self
    }

    /// Adds a body to what runs after a function's result was taken, named `interface#function`.
    pub fn post_return(mut self, name: &str, body: &'static str) -> Self {
        let (interface, function) = name.split_once('#').expect("interface#function");
        self.post_returns.insert(format!("weir:plugin/{interface}@1.0.0#{function}"), body);
        self
    }

    /// Replaces the allocator's body.
    pub fn realloc(mut self, body: &'static str) -> Self {
        self.realloc = Some(body);
        self
    }

    /// Adds fields to the module (functions, globals, a start).
    pub fn extra(mut self, wat: &str) -> Self {
        self.extra.push_str(wat);
        self
    }

    /// Replaces the memory's declaration.
    pub fn memory(mut self, wat: &str) -> Self {
        self.memory = wat.into();
        self
    }

    /// Another world of the package, or of another package that the resolver knows.
    pub fn world(mut self, world: &'static str) -> Self {
        self.world = world;
        self
    }

    /// Leaves out every function of an interface.
    pub fn without(mut self, interface: &str) -> Self {
        self.functions.retain(|name, _| !name.starts_with(&format!("weir:plugin/{interface}@")));
        self
    }

    /// Places static bytes; gives where.
    pub fn place(&mut self, bytes: &[u8]) -> u32 {
        while !self.image.len().is_multiple_of(4) {
            self.image.push(0);
        }
        let at = IMAGE + self.image.len() as u32;
        self.image.extend_from_slice(bytes);
        assert!(IMAGE as usize + self.image.len() < HEAP as usize - 65_536, "the image stays below the scratch page");
        at
    }

    /// Places bytes; gives "pointer length" as WAT constants.
    pub fn text(&mut self, bytes: &[u8]) -> String {
        let at = self.place(bytes);
        format!("(i32.const {at}) (i32.const {})", bytes.len())
    }

    fn pair(&mut self, bytes: &[u8]) -> Vec<u8> {
        let at = self.place(bytes);
        [at.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat()
    }

    fn list(&mut self, elements: &[u8], size: usize) -> Vec<u8> {
        let at = self.place(elements);
        [at.to_le_bytes(), ((elements.len() / size) as u32).to_le_bytes()].concat()
    }

    fn state(&mut self, (name, kind, prefetch): &State) -> Vec<u8> {
        let mut desc = [self.pair(name.as_bytes()), self.pair(kind.as_bytes())].concat();
        desc.extend(1u32.to_le_bytes());
        // The list's stride is 24: two strings, a version and a bool with its padding.
        desc.extend([u8::from(*prefetch), 0, 0, 0]);
        desc
    }

    /// The core module.
    pub fn module(&self) -> Vec<u8> {
        let imports: String = self
            .imports
            .iter()
            .map(|wanted| {
                let (interface, name, wat, signature) =
                    IMPORTS.iter().find(|(_, _, wat, _)| wat == wanted).expect("an import of the contract");
                format!("(import \"weir:plugin/{interface}@1.0.0\" \"{name}\" (func {wat} {signature}))\n")
            })
            .collect();
        let functions: String = self
            .functions
            .iter()
            .map(|(name, (signature, body))| {
                let more = self.post_returns.get(name).copied().unwrap_or("");
                let post = if body.is_empty() || !signature.contains("result") {
                    String::new()
                } else {
                    format!("(func (export \"cabi_post_{name}\") (param i32) (global.set $heap (i32.const {HEAP})) {more})\n")
                };
                format!("(func (export \"{name}\") {signature} (local $i i32) (local $at i32)\n{body})\n{post}")
            })
            .collect();
        let image: String = self.image.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let realloc = self.realloc.map_or(REALLOC.to_owned(), |body| {
            format!("(func $cabi_realloc (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) {body})")
        });
        let wat = format!(
            "(module {imports} {} {} (global $heap (mut i32) (i32.const {HEAP})) {realloc} {PRELUDE} {} {functions} \
             (data (i32.const {IMAGE}) \"{image}\"))",
            self.raw_imports, self.memory, self.extra
        )
        .replace("@1.0.0", &format!("@{}", self.version));
        wat::parse_str(&wat).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The component.
    pub fn build(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(wit_folder()).expect("the contract parses");
        self.build_in(&resolve, package)
    }

    /// The component, in a world of another package.
    pub fn build_in(&self, resolve: &Resolve, package: wit_parser::PackageId) -> Vec<u8> {
        let world = resolve.select_world(&[package], Some(self.world)).expect("the world is in the package");
        let mut module = self.module();
        embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8, false).expect("the module is well formed");
        let mut encoder = ComponentEncoder::default();
        encoder.module(&module).expect("the module fits its world").encode().expect("it becomes a component")
    }
}

/// `process` that gives its input back.
pub const ECHO: &str = "
    (i32.store (i32.const 64) (i32.const 0))
    (i32.store (i32.const 68) (local.get $count))
    (i32.store (i32.const 72) (local.get $data)) (i32.store (i32.const 76) (local.get $data_len))
    (i32.store (i32.const 80) (local.get $index)) (i32.store (i32.const 84) (local.get $index_len))
    (i32.store (i32.const 88) (local.get $times)) (i32.store (i32.const 92) (local.get $times_len))
    (i32.store (i32.const 96) (local.get $aux)) (i32.store (i32.const 100) (local.get $aux_len))
    (i64.store (i32.const 104) (i64.const 0)) (i64.store (i32.const 112) (i64.const 0))
    (i32.const 64)";

/// Allocation by bumping; the heap is taken back after each call.
const REALLOC: &str = "
  (func $cabi_realloc (export \"cabi_realloc\") (param $old i32) (param $old_len i32) (param $align i32) (param $len i32)
      (result i32) (local $at i32) (local $end i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (local.set $end (i32.add (local.get $at) (local.get $len)))
    (if (i32.gt_u (local.get $end) (i32.shl (memory.size) (i32.const 16)))
      (then (if (i32.eq (i32.const -1) (memory.grow (i32.add (i32.const 1)
          (i32.shr_u (i32.sub (local.get $end) (i32.shl (memory.size) (i32.const 16))) (i32.const 16)))))
        (then unreachable))))
    (global.set $heap (local.get $end))
    (local.get $at))
";

/// What every guest has: the shortest answers.
const PRELUDE: &str = "
  ;; result ok of nothing
  (func $ok (result i32) (i32.store (i32.const 64) (i32.const 0)) (i32.const 64))
  ;; result ok of an empty output (or of none, or of an empty list)
  (func $empty (result i32) (memory.fill (i32.const 64) (i32.const 0) (i32.const 56)) (i32.const 64))
  ;; result err: 0 retry, 1 bad-input, 2 fatal; text or list of (index, reason)
  (func $error (param $kind i32) (param $at i32) (param $len i32) (result i32)
    (i32.store (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (local.get $kind))
    (i32.store (i32.const 72) (local.get $at)) (i32.store (i32.const 76) (local.get $len))
    (i32.const 64))
  ;; a list of outcomes that all have discriminant 0
  (func $outcomes (param $len i32) (result i32) (local $at i32)
    (local.set $at (call $cabi_realloc (i32.const 0) (i32.const 0) (i32.const 4) (i32.mul (local.get $len) (i32.const 12))))
    (memory.fill (local.get $at) (i32.const 0) (i32.mul (local.get $len) (i32.const 12)))
    (i32.store (i32.const 64) (local.get $at)) (i32.store (i32.const 68) (local.get $len))
    (i32.const 64))
";
