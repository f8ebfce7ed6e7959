;; One pass over a JSON text that leaves the span of each value. It takes valid JSON without surprises alone: on anything else it gives
;; up, and json-scan.ts reads the text again and knows what is wrong with it. `npm run wasm` compiles this file to json-scan-wasm.ts.

(module
  ;; 0x000040: the text, up to 4 MiB, a zero byte behind it, and room for loads that pass the end.
  ;; 0x401000: a node and an opening bracket for each open container, up to 512. 0x402000: 1 if a nested key ends with `url`.
  ;; 0x402001: 1 if a string has an escape with a shorter form, `\u` or `\/`.
  ;; 0x402100: by character, 1 for those that may follow a backslash.
  ;; 0x403000 and 0x503000: two tapes of 65,536 nodes: start, end, the index of the word behind the subtree, and of a string the id of the
  ;; name that it is: 0 when it is none, -1 when it has escapes and has to be read.
  ;; 0x603000: 512 names by their ids from 1 on, of up to 48 bytes and zeros behind them; the last byte of the 64 is the length.
  ;; 0x60b000: a hash table of 2,048 ids of two bytes; 0 is an empty place.
  ;; 0x610000: 1 MiB for a text that is written from parts of the other one.
  (memory (export "memory") 113 113)

  (data (i32.const 0x402122) "\01") ;; "
  (data (i32.const 0x40212f) "\01") ;; /
  (data (i32.const 0x40215c) "\01") ;; \
  (data (i32.const 0x402162) "\01\00\00\00\01\00\00\00\00\00\00\00\01\00\00\00\01\00\01\01") ;; b f n r t u

  ;; Whether the last string has a backslash.
  (global $escaped (mut i32) (i32.const 0))
  ;; Whether a string has an escape with a shorter form.
  (global $long (mut i32) (i32.const 0))

  (func $space (param $at i32) (result i32)
    (local $byte i32)
    (loop $next
      (local.set $byte (i32.load8_u (local.get $at)))
      (if (i32.gt_u (local.get $byte) (i32.const 0x20)) (then (return (local.get $at))))
      ;; Of the 33 bytes up to a blank: tab, line feed, carriage return and blank.
      (if (i64.eqz
            (i64.and
              (i64.shr_u (i64.const 0x100002600) (i64.extend_i32_u (local.get $byte)))
              (i64.const 1)))
        (then (return (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))
    (unreachable))

  (func $isHex (param $byte i32) (result i32)
    (i32.or
      (i32.lt_u (i32.sub (local.get $byte) (i32.const 0x30)) (i32.const 10))
      (i32.lt_u (i32.sub (i32.or (local.get $byte) (i32.const 0x20)) (i32.const 0x61)) (i32.const 6))))

  ;; The closing quote of the string whose inside begins at $at; 0 if there is a control character or an escape that JSON does not have.
  (func $string (param $at i32) (result i32)
    (local $bytes v128) (local $stops i32) (local $byte i32) (local $stop i32) (local $bit i32)
    ;; 1 if the first byte of the next sixteen follows a backslash.
    (local $follows i32)
    (local $quote v128) (local $backslash v128) (local $control v128)
    (local.set $quote (i8x16.splat (i32.const 0x22)))
    (local.set $backslash (i8x16.splat (i32.const 0x5c)))
    (local.set $control (i8x16.splat (i32.const 0x1f)))
    (global.set $escaped (i32.const 0))
    (loop $next
      (local.set $bytes (v128.load (local.get $at)))
      (local.set $stops
        (i32.and
          (i8x16.bitmask
            (v128.or
              (v128.or
                (i8x16.eq (local.get $bytes) (local.get $quote))
                (i8x16.eq (local.get $bytes) (local.get $backslash)))
              (i8x16.le_u (local.get $bytes) (local.get $control))))
          (i32.xor (local.get $follows) (i32.const -1))))
      (local.set $follows (i32.const 0))
      ;; All stops of sixteen bytes come from one load: to load again behind each escape would wait for the one before.
      (loop $another
        (if (i32.eqz (local.get $stops))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 16)))
            (br $next)))
        (local.set $stop (i32.add (local.get $at) (i32.ctz (local.get $stops))))
        (local.set $byte (i32.load8_u (local.get $stop)))
        (if (i32.eq (local.get $byte) (i32.const 0x22)) (then (return (local.get $stop))))
        (if (i32.ne (local.get $byte) (i32.const 0x5c)) (then (return (i32.const 0))))
        (global.set $escaped (i32.const 1))
        (local.set $byte (i32.load8_u offset=1 (local.get $stop)))
        (if (i32.eqz (i32.load8_u offset=0x402100 (local.get $byte))) (then (return (i32.const 0))))
        (local.set $bit (i32.and (local.get $stops) (i32.sub (i32.const 0) (local.get $stops))))
        (local.set $stops
          (i32.and
            (local.get $stops)
            (i32.xor (i32.mul (local.get $bit) (i32.const 3)) (i32.const -1))))
        (local.set $follows (i32.shr_u (local.get $bit) (i32.const 15)))
        (if (i32.eq (local.get $byte) (i32.const 0x2f)) (then (global.set $long (i32.const 1))))
        (br_if $another (i32.ne (local.get $byte) (i32.const 0x75)))
        (global.set $long (i32.const 1))
        (if (i32.eqz
              (i32.and
                (i32.and (call $isHex (i32.load8_u offset=2 (local.get $stop))) (call $isHex (i32.load8_u offset=3 (local.get $stop))))
                (i32.and (call $isHex (i32.load8_u offset=4 (local.get $stop))) (call $isHex (i32.load8_u offset=5 (local.get $stop))))))
          (then (return (i32.const 0))))
        (br $another)))
    (unreachable))

  ;; The place where the search for a name in the hash table begins. $first and $last: eight bytes of it each, which may overlap.
  (func $place (param $first i64) (param $last i64) (param $length i32) (result i32)
    (i32.wrap_i64
      (i64.shr_u
        (i64.mul
          (i64.add
            (i64.mul (local.get $first) (i64.const 0x9e3779b97f4a7c15))
            (i64.add (local.get $last) (i64.extend_i32_u (local.get $length))))
          (i64.const 0xd6e8feb86659fd93))
        (i64.const 53))))

  ;; The first eight bytes of a string, with zeros behind a shorter one.
  (func $first (param $start i32) (param $length i32) (result i64)
    (if (i32.ge_u (local.get $length) (i32.const 8)) (then (return (i64.load (local.get $start)))))
    (i64.and
      (i64.load (local.get $start))
      (i64.shr_u (i64.const -1) (i64.extend_i32_u (i32.sub (i32.const 64) (i32.shl (local.get $length) (i32.const 3)))))))

  ;; The id of the name that the string of $length bytes is; 0 if it is none.
  (func $name (param $start i32) (param $length i32) (result i32)
    (local $first i64) (local $last i64) (local $tail i32) (local $place i32) (local $id i32) (local $entry i32) (local $at i32)
    (if (i32.ge_u (i32.sub (local.get $length) (i32.const 1)) (i32.const 48)) (then (return (i32.const 0))))
    (local.set $first (call $first (local.get $start) (local.get $length)))
    (local.set $last (local.get $first))
    (if (i32.gt_u (local.get $length) (i32.const 8))
      (then
        (local.set $tail (i32.sub (local.get $length) (i32.const 8)))
        (local.set $last (i64.load (i32.add (local.get $start) (local.get $tail))))))
    (local.set $place (call $place (local.get $first) (local.get $last) (local.get $length)))
    (loop $next
      (local.set $id (i32.load16_u offset=0x60b000 (i32.shl (local.get $place) (i32.const 1))))
      (if (i32.eqz (local.get $id)) (then (return (i32.const 0))))
      (local.set $entry (i32.add (i32.const 0x603000) (i32.shl (local.get $id) (i32.const 6))))
      (local.set $place (i32.and (i32.add (local.get $place) (i32.const 1)) (i32.const 2047)))
      (br_if $next (i32.ne (i32.load8_u offset=63 (local.get $entry)) (local.get $length)))
      (br_if $next (i64.ne (i64.load (local.get $entry)) (local.get $first)))
      (br_if $next (i64.ne (i64.load (i32.add (local.get $entry) (local.get $tail))) (local.get $last)))
      (local.set $at (i32.const 8))
      (block $same
        (loop $middle
          (br_if $same (i32.ge_u (local.get $at) (local.get $tail)))
          (br_if $next
            (i64.ne
              (i64.load (i32.add (local.get $start) (local.get $at)))
              (i64.load (i32.add (local.get $entry) (local.get $at)))))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br $middle)))
      (return (local.get $id)))
    (unreachable))

  ;; Adds the name that was written to the entry of $id.
  (func (export "add") (param $id i32)
    (local $entry i32) (local $length i32) (local $first i64) (local $last i64) (local $place i32)
    (local.set $entry (i32.add (i32.const 0x603000) (i32.shl (local.get $id) (i32.const 6))))
    (local.set $length (i32.load8_u offset=63 (local.get $entry)))
    (local.set $first (call $first (local.get $entry) (local.get $length)))
    (local.set $last (local.get $first))
    (if (i32.gt_u (local.get $length) (i32.const 8))
      (then
        (local.set $last
          (i64.load (i32.add (local.get $entry) (i32.sub (local.get $length) (i32.const 8)))))))
    (local.set $place (call $place (local.get $first) (local.get $last) (local.get $length)))
    (loop $next
      (if (i32.load16_u offset=0x60b000 (i32.shl (local.get $place) (i32.const 1)))
        (then
          (local.set $place (i32.and (i32.add (local.get $place) (i32.const 1)) (i32.const 2047)))
          (br $next))))
    (i32.store16 offset=0x60b000 (i32.shl (local.get $place) (i32.const 1)) (local.get $id)))

  ;; Behind the digits from $at on; 0 if there are none.
  (func $digits (param $at i32) (result i32)
    (local $start i32)
    (local.set $start (local.get $at))
    (loop $next
      (if (i32.lt_u (i32.sub (i32.load8_u (local.get $at)) (i32.const 0x30)) (i32.const 10))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next))))
    (select (local.get $at) (i32.const 0) (i32.ne (local.get $at) (local.get $start))))

  ;; Behind the literal name or number (RFC 8259, sections 3 and 6) that begins with $byte; 0 if it is none.
  (func $scalar (param $at i32) (param $byte i32) (result i32)
    (if (i32.eq (local.get $byte) (i32.const 0x74))
      (then
        (return
          (select (i32.add (local.get $at) (i32.const 4)) (i32.const 0)
            (i32.eq (i32.load (local.get $at)) (i32.const 0x65757274))))))
    (if (i32.eq (local.get $byte) (i32.const 0x6e))
      (then
        (return
          (select (i32.add (local.get $at) (i32.const 4)) (i32.const 0)
            (i32.eq (i32.load (local.get $at)) (i32.const 0x6c6c756e))))))
    (if (i32.eq (local.get $byte) (i32.const 0x66))
      (then
        (return
          (select (i32.add (local.get $at) (i32.const 5)) (i32.const 0)
            (i32.eq (i32.load offset=1 (local.get $at)) (i32.const 0x65736c61))))))
    (if (i32.eq (local.get $byte) (i32.const 0x2d))
      (then
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $byte (i32.load8_u (local.get $at)))))
    (if (i32.eq (local.get $byte) (i32.const 0x30))
      (then (local.set $at (i32.add (local.get $at) (i32.const 1))))
      (else
        (local.set $at (call $digits (local.get $at)))
        (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))))
    (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x2e))
      (then
        (local.set $at (call $digits (i32.add (local.get $at) (i32.const 1))))
        (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))))
    (if (i32.eq (i32.or (i32.load8_u (local.get $at)) (i32.const 0x20)) (i32.const 0x65))
      (then
        (local.set $byte (i32.load8_u offset=1 (local.get $at)))
        (local.set $at
          (call $digits
            (i32.add (local.get $at)
              (select (i32.const 2) (i32.const 1)
                (i32.or (i32.eq (local.get $byte) (i32.const 0x2b)) (i32.eq (local.get $byte) (i32.const 0x2d)))))))))
    (local.get $at))

  ;; Reads the value that begins with the first byte of the text. Offsets on the tape are addresses plus $base.
  ;; @param $room the last byte of the tape at which two nodes have room
  ;; @param $levels bytes of the most open containers, eight for each
  ;; @returns the address behind the value; 0 if it gives up
  (func (export "scan") (param $base i32) (param $tape i32) (param $room i32) (param $levels i32) (result i32)
    (local $at i32) (local $to i32) (local $node i32) (local $level i32) (local $open i32) (local $byte i32) (local $start i32)
    (local $isAddress i32)
    (global.set $long (i32.const 0))
    (local.set $at (i32.const 0x40))
    (local.set $to (local.get $tape))
    (loop $value
      (if (i32.gt_u (local.get $to) (local.get $room)) (then (return (i32.const 0))))
      (if (i32.eq (local.get $open) (i32.const 0x7b))
        (then
          (if (i32.ne (i32.load8_u (local.get $at)) (i32.const 0x22)) (then (return (i32.const 0))))
          (i32.store (local.get $to) (i32.add (local.get $at) (local.get $base)))
          (local.set $start (i32.add (local.get $at) (i32.const 1)))
          (local.set $at (call $string (local.get $start)))
          ;; A key that is written with escapes is rare.
          (if (i32.or (i32.eqz (local.get $at)) (global.get $escaped)) (then (return (i32.const 0))))
          (if (i32.gt_u (local.get $level) (i32.const 8))
            (then
              (local.set $isAddress
                (i32.or (local.get $isAddress)
                  ;; `url`, or `Url`.
                  (i32.eq
                    (i32.or
                      (i32.shr_u (i32.load (i32.sub (local.get $at) (i32.const 4))) (i32.const 8))
                      (i32.const 0x20))
                    (i32.const 0x6c7275))))))
          (i32.store offset=12 (local.get $to) (call $name (local.get $start) (i32.sub (local.get $at) (local.get $start))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (i32.store offset=4 (local.get $to) (i32.add (local.get $at) (local.get $base)))
          (local.set $to (i32.add (local.get $to) (i32.const 16)))
          (i32.store
            (i32.sub (local.get $to) (i32.const 8))
            (i32.shr_u (i32.sub (local.get $to) (local.get $tape)) (i32.const 2)))
          (if (i32.le_u (i32.load8_u (local.get $at)) (i32.const 0x20)) (then (local.set $at (call $space (local.get $at)))))
          (if (i32.ne (i32.load8_u (local.get $at)) (i32.const 0x3a)) (then (return (i32.const 0))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (if (i32.le_u (i32.load8_u (local.get $at)) (i32.const 0x20)) (then (local.set $at (call $space (local.get $at)))))))
      (local.set $node (local.get $to))
      (i32.store (local.get $node) (i32.add (local.get $at) (local.get $base)))
      (i32.store offset=12 (local.get $node) (i32.const 0))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (local.set $byte (i32.load8_u (local.get $at)))
      (block $ended
        (if (i32.eq (local.get $byte) (i32.const 0x22))
          (then
            (local.set $start (i32.add (local.get $at) (i32.const 1)))
            (local.set $at (call $string (local.get $start)))
            (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))
            (i32.store offset=12 (local.get $node)
              (if (result i32) (global.get $escaped)
                (then (i32.const -1))
                (else (call $name (local.get $start) (i32.sub (local.get $at) (local.get $start))))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $ended)))
        ;; `[` and `{` differ in bit 5 alone.
        (if (i32.ne (i32.or (local.get $byte) (i32.const 0x20)) (i32.const 0x7b))
          (then
            (local.set $at (call $scalar (local.get $at) (local.get $byte)))
            (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))
            (br $ended)))
        (if (i32.ge_u (local.get $level) (local.get $levels)) (then (return (i32.const 0))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (if (i32.le_u (i32.load8_u (local.get $at)) (i32.const 0x20)) (then (local.set $at (call $space (local.get $at)))))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.add (local.get $byte) (i32.const 2)))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $ended)))
        (local.set $open (local.get $byte))
        (i32.store offset=0x401000 (local.get $level) (local.get $node))
        (i32.store offset=0x401004 (local.get $level) (local.get $open))
        (local.set $level (i32.add (local.get $level) (i32.const 8)))
        (br $value))
      (loop $closed
        (i32.store offset=4 (local.get $node) (i32.add (local.get $at) (local.get $base)))
        (i32.store offset=8 (local.get $node) (i32.shr_u (i32.sub (local.get $to) (local.get $tape)) (i32.const 2)))
        (if (i32.eqz (local.get $level))
          (then
            (i32.store8 (i32.const 0x402000) (local.get $isAddress))
            (i32.store8 (i32.const 0x402001) (global.get $long))
            (return (local.get $at))))
        (if (i32.le_u (i32.load8_u (local.get $at)) (i32.const 0x20)) (then (local.set $at (call $space (local.get $at)))))
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (if (i32.eq (local.get $byte) (i32.const 0x2c))
          (then
            (if (i32.le_u (i32.load8_u (local.get $at)) (i32.const 0x20)) (then (local.set $at (call $space (local.get $at)))))
            (br $value)))
        ;; A closing bracket is its opening bracket plus two.
        (if (i32.ne (local.get $byte) (i32.add (local.get $open) (i32.const 2))) (then (return (i32.const 0))))
        (local.set $level (i32.sub (local.get $level) (i32.const 8)))
        (local.set $node (i32.load offset=0x401000 (local.get $level)))
        (local.set $open
          (if (result i32) (local.get $level)
            (then (i32.load offset=0x400ffc (local.get $level)))
            (else (i32.const 0))))
        (br $closed)))
    (unreachable))

  (func (export "copy") (param $to i32) (param $from i32) (param $length i32)
    (memory.copy (local.get $to) (local.get $from) (local.get $length)))

  ;; Writes JSON text as the inside of a string. Writes up to six bytes for one, and up to fifteen behind the last one.
  ;; @returns the address behind what was written
  (func (export "quote") (param $to i32) (param $from i32) (param $length i32) (result i32)
    (local $bytes v128) (local $stops i32) (local $count i32) (local $byte i32)
    (loop $next
      (local.set $bytes (v128.load (local.get $from)))
      (v128.store (local.get $to) (local.get $bytes))
      (local.set $stops
        (i8x16.bitmask
          (v128.or
            (v128.or
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x22)))
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x5c))))
            (i8x16.le_u (local.get $bytes) (i8x16.splat (i32.const 0x1f))))))
      (local.set $count
        (select (i32.ctz (local.get $stops)) (i32.const 16) (local.get $stops)))
      (if (i32.ge_u (local.get $count) (local.get $length))
        (then (return (i32.add (local.get $to) (local.get $length)))))
      (local.set $to (i32.add (local.get $to) (local.get $count)))
      (local.set $from (i32.add (local.get $from) (local.get $count)))
      (local.set $length (i32.sub (local.get $length) (local.get $count)))
      (br_if $next (i32.eqz (local.get $stops)))
      (local.set $byte (i32.load8_u (local.get $from)))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (i32.store8 (local.get $to) (i32.const 0x5c))
      (if (i32.ge_u (local.get $byte) (i32.const 0x20))
        (then
          (i32.store8 offset=1 (local.get $to) (local.get $byte))
          (local.set $to (i32.add (local.get $to) (i32.const 2)))
          (br $next)))
      ;; `u00`, and the two digits.
      (i32.store offset=1 (local.get $to) (i32.const 0x303075))
      (i32.store8 offset=4 (local.get $to) (i32.add (i32.const 0x30) (i32.shr_u (local.get $byte) (i32.const 4))))
      (local.set $byte (i32.and (local.get $byte) (i32.const 15)))
      (i32.store8 offset=5 (local.get $to)
        (i32.add
          (local.get $byte)
          (select (i32.const 0x30) (i32.const 0x57) (i32.lt_u (local.get $byte) (i32.const 10)))))
      (local.set $to (i32.add (local.get $to) (i32.const 6)))
      (br $next))
    (unreachable)))
