;; WASI's preview 1 for modules of languages with a runtime, on top of little of WASI 0.2. In place of the adapter that Wasmtime
;; publishes, for two reasons:
;;
;; - That one takes memory for itself, by growing the module's. Go's runtime holds that nobody else does, and writes over it.
;; - Runtimes read the clock whenever they please, also while the host asks for memory (cabi_realloc) or gives an answer free
;;   (cabi_post_...), when no call may leave the component. Here the clock is inside, and shows what the host's would.
;;
;; It has no memory of its own, no stack and no state but the globals. There are no files: functions answer with an errno (8: there is
;; no such file descriptor; 28: invalid; 52: not there at all).
(module
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get-stdout (result i32)))
  (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $get-stderr (result i32)))
  (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (import "env" "memory" (memory 0))
  ;; Handles of the streams; 0 while there is none.
  (global $stdout (mut i32) (i32.const 0))
  (global $stderr (mut i32) (i32.const 0))
  ;; Nanoseconds. Not 0: Go's runtime takes that for a broken clock.
  (global $now (mut i64) (i64.const 1_000_000_000))

  ;; (clock, precision, where to) -> errno
  (func (export "clock_time_get") (param i32 i64 i32) (result i32)
    (i64.store (local.get 2) (global.get $now))
    (i32.const 0))

  ;; (clock, where to) -> errno
  (func (export "clock_res_get") (param i32 i32) (result i32)
    (i64.store (local.get 1) (i64.const 1))
    (i32.const 0))

  ;; When a subscription is ready; what waits for a file is so at once.
  (func $deadline (param $subscription i32) (result i64) (local $timeout i64)
    (if (i32.load8_u offset=8 (local.get $subscription)) (then (return (i64.const 0))))
    (local.set $timeout (i64.load offset=24 (local.get $subscription)))
    (if (i32.and (i32.load16_u offset=40 (local.get $subscription)) (i32.const 1)) (then (return (local.get $timeout))))
    (local.set $timeout (i64.add (local.get $timeout) (global.get $now)))
    ;; A sleep without end.
    (if (i64.lt_u (local.get $timeout) (global.get $now)) (then (return (i64.const -1))))
    (local.get $timeout))

  ;; (subscriptions, events, number, where to) -> errno
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $n i32) (param $count i32) (result i32)
    (local $at i32) (local $end i32) (local $first i64) (local $before i64) (local $deadline i64) (local $events i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 28))))
    (local.set $end (i32.add (local.get $in) (i32.mul (local.get $n) (i32.const 48))))
    ;; Until the first one is ready.
    (local.set $first (i64.const -1))
    (local.set $at (local.get $in))
    (loop $next
      (local.set $deadline (call $deadline (local.get $at)))
      (if (i64.lt_u (local.get $deadline) (local.get $first)) (then (local.set $first (local.get $deadline))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 48))) (local.get $end))))
    (local.set $before (global.get $now))
    ;; Events of those that are: by the clock as it was, since timeouts count from there.
    (local.set $at (local.get $in))
    (loop $next
      (local.set $deadline (call $deadline (local.get $at)))
      (if (i32.or
            (i64.le_u (local.get $deadline) (local.get $first))
            (i64.le_u (local.get $deadline) (local.get $before)))
        (then
          (memory.fill (local.get $out) (i32.const 0) (i32.const 32))
          (i64.store (local.get $out) (i64.load (local.get $at)))
          (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $at)))
          (local.set $out (i32.add (local.get $out) (i32.const 32)))
          (local.set $events (i32.add (local.get $events) (i32.const 1)))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 48))) (local.get $end))))
    (if (i64.gt_u (local.get $first) (local.get $before)) (then (global.set $now (local.get $first))))
    (i32.store (local.get $count) (local.get $events))
    (i32.const 0))

  ;; The handle of file descriptor 1 or 2; 0 for another.
  (func $stream (param $fd i32) (result i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then
        (if (i32.eqz (global.get $stdout)) (then (global.set $stdout (call $get-stdout))))
        (return (global.get $stdout))))
    (if (i32.eq (local.get $fd) (i32.const 2))
      (then
        (if (i32.eqz (global.get $stderr)) (then (global.set $stderr (call $get-stderr))))
        (return (global.get $stderr))))
    (i32.const 0))

  ;; (fd, iovecs, number, where to) -> errno
  (func (export "fd_write") (param $fd i32) (param $iovec i32) (param $n i32) (param $count i32) (result i32)
    (local $stream i32) (local $sum i32) (local $saved i64) (local $saved_too i64)
    (if (i32.eqz (local.tee $stream (call $stream (local.get $fd)))) (then (return (i32.const 8))))
    ;; Where the host's answer goes: memory begins with bytes that can be put back.
    (local.set $saved (i64.load (i32.const 0)))
    (local.set $saved_too (i64.load (i32.const 8)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (call $write (local.get $stream) (i32.load (local.get $iovec)) (i32.load offset=4 (local.get $iovec)) (i32.const 0))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $iovec))))
        (local.set $iovec (i32.add (local.get $iovec) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (i64.store (i32.const 0) (local.get $saved))
    (i64.store (i32.const 8) (local.get $saved_too))
    (i32.store (local.get $count) (local.get $sum))
    (i32.const 0))

  ;; Standard input has ended.
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32)
    (if (local.get 0) (then (return (i32.const 8))))
    (i32.store (local.get 3) (i32.const 0))
    (i32.const 0))

  (func $standard (param $fd i32) (result i32) (select (i32.const 0) (i32.const 8) (i32.lt_u (local.get $fd) (i32.const 3))))
  (func (export "fd_close") (param i32) (result i32) (call $standard (local.get 0)))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (call $standard (local.get 0)))
  ;; A character device that may do anything.
  (func (export "fd_fdstat_get") (param i32 i32) (result i32)
    (if (call $standard (local.get 0)) (then (return (i32.const 8))))
    (memory.fill (local.get 1) (i32.const 0) (i32.const 24))
    (i32.store8 (local.get 1) (i32.const 2))
    (i64.store offset=8 (local.get 1) (i64.const -1))
    (i32.const 0))
  (func (export "fd_filestat_get") (param i32 i32) (result i32)
    (if (call $standard (local.get 0)) (then (return (i32.const 8))))
    (memory.fill (local.get 1) (i32.const 0) (i32.const 64))
    (i32.store8 offset=16 (local.get 1) (i32.const 2))
    (i32.const 0))

  ;; (where to, length) -> errno
  (func (export "random_get") (param $at i32) (param $n i32) (result i32) (local $bits i64)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (local.set $bits (call $random))
        (if (i32.ge_u (local.get $n) (i32.const 8))
          (then
            (i64.store (local.get $at) (local.get $bits))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (local.set $n (i32.sub (local.get $n) (i32.const 8)))
            (br $next)))
        (loop $byte
          (i64.store8 (local.get $at) (local.get $bits))
          (local.set $bits (i64.shr_u (local.get $bits) (i64.const 8)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $byte (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))
    (i32.const 0))

  ;; No arguments, no variables: (where to put the number, where to put the bytes) -> errno
  (func (export "args_sizes_get") (export "environ_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0))
    (i32.store (local.get 1) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  (func (export "proc_exit") (param i32) (call $exit (i32.ne (local.get 0) (i32.const 0))) unreachable)
  (func (export "sched_yield") (result i32) (i32.const 0))

  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "proc_raise") (param i32) (result i32) (i32.const 52))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 52)))
