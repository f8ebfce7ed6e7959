;; The inner loops over the bytes of a prompt: the end of a string, canonical JSON, and the hashes of blocks. Loads may pass the end
;; of what is there by 64 bytes, which changes no result. `npm run wasm` compiles this file to prompt-stream-wasm.ts.

(module
  ;; 0x000000: the stream, 1 MiB, and 64 KiB of room.
  ;; 0x110000: the hash that the chain begins with, 8 bytes, and the hashes of the blocks.
  ;; 0x112000: the short escapes; 0x112080: where `copyString` stopped; 0x112088: the hash of an attachment.
  ;; 0x112100: a copy of what is rewritten, hashed or moved, up to 1 MiB, and 64 KiB of room.
  (memory (export "memory") 35 35)

  ;; By character: the letter of its escape of two bytes; 0 without one.
  (data (i32.const 0x112000)
    "\00\00\00\00\00\00\00\00btn\00fr\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"
    "\00\00\22\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"
    "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\5c")

  ;; Of the last `findEnd`; 1: the next byte is escaped by the last one.
  (global $carried (mut i64) (i64.const 0))

  ;; In the functions that look at 64 bytes at a time, a local of 64 bits has one bit for each of these bytes, the first byte lowest.

  ;; Finds the quote that ends the string whose inside begins at $at. With $continued, $at continues the bytes of the last call, which
  ;; were a multiple of 64. Returns its address, $end if it is not before that, and -1 if an escape before it has a shorter form.
  (func (export "findEnd") (param $at i32) (param $end i32) (param $continued i32) (result i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $slashes i64) (local $quotes i64) (local $escaped i64) (local $carry i64)
    (local $follows i64) (local $odd i64) (local $sum i64)
    (if (local.get $continued) (then (local.set $carry (global.get $carried))))
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $end))
        (then
          (global.set $carried (local.get $carry))
          (return (local.get $end))))
      (local.set $a (v128.load (local.get $at)))
      (local.set $b (v128.load offset=16 (local.get $at)))
      (local.set $c (v128.load offset=32 (local.get $at)))
      (local.set $d (v128.load offset=48 (local.get $at)))
      (local.set $slashes
        (i64.or
          (i64.or
            (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x5c)))))
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x5c))))) (i64.const 16)))
          (i64.or
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x5c))))) (i64.const 32))
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x5c))))) (i64.const 48)))))
      (local.set $quotes
        (i64.or
          (i64.or
            (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x22)))))
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x22))))) (i64.const 16)))
          (i64.or
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x22))))) (i64.const 32))
            (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x22))))) (i64.const 48)))))
      (if (i64.ne (i64.or (local.get $slashes) (local.get $carry)) (i64.const 0))
        (then
          ;; The bytes that are escaped: a run of backslashes escapes every second byte from the one behind its first (Langdale and
          ;; Lemire, "Parsing Gigabytes of JSON per Second", section 3.1.1).
          (local.set $slashes (i64.and (local.get $slashes) (i64.xor (local.get $carry) (i64.const -1))))
          (local.set $follows (i64.or (i64.shl (local.get $slashes) (i64.const 1)) (local.get $carry)))
          (local.set $odd
            (i64.and (i64.and (local.get $slashes) (i64.const 0xaaaaaaaaaaaaaaaa)) (i64.xor (local.get $follows) (i64.const -1))))
          (local.set $sum (i64.add (local.get $odd) (local.get $slashes)))
          (local.set $carry (i64.extend_i32_u (i64.lt_u (local.get $sum) (local.get $odd))))
          (local.set $escaped
            (i64.and
              (i64.xor (i64.const 0x5555555555555555) (i64.shl (local.get $sum) (i64.const 1)))
              (local.get $follows)))
          (local.set $quotes (i64.and (local.get $quotes) (i64.xor (local.get $escaped) (i64.const -1))))
          ;; Of the bytes before the quote.
          (if (i64.ne (local.get $quotes) (i64.const 0))
            (then
              (local.set $escaped
                (i64.and (local.get $escaped)
                  (i64.and (i64.sub (local.get $quotes) (i64.const 1)) (i64.xor (local.get $quotes) (i64.const -1)))))))
          ;; `u` or `/`: escapes with a shorter form.
          (if (i64.ne
                (i64.and (local.get $escaped)
                  (i64.or
                    (i64.or
                      (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x2f))))))
                      (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x2f)))))) (i64.const 16)))
                    (i64.or
                      (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x2f)))))) (i64.const 32))
                      (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x2f)))))) (i64.const 48)))))
                (i64.const 0))
            (then (return (i32.const -1))))))
      (if (i64.ne (local.get $quotes) (i64.const 0))
        (then
          (local.set $at (i32.add (local.get $at) (i32.wrap_i64 (i64.ctz (local.get $quotes)))))
          (return (select (local.get $at) (local.get $end) (i32.lt_u (local.get $at) (local.get $end))))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br $next))
    (unreachable))

  ;; The value of four hexadecimal digits: the low bits of each, and 9 more for letters.
  (func $hex (param $at i32) (result i32)
    (local $digits i32)
    (local.set $digits (i32.load (local.get $at)))
    (local.set $digits
      (i32.and
        (i32.add
          (i32.and (local.get $digits) (i32.const 0x0f0f0f0f))
          (i32.mul (i32.and (i32.shr_u (local.get $digits) (i32.const 6)) (i32.const 0x01010101)) (i32.const 9)))
        (i32.const 0x0f0f0f0f)))
    (i32.or
      (i32.or (i32.shl (i32.and (local.get $digits) (i32.const 15)) (i32.const 12)) (i32.and (local.get $digits) (i32.const 0xf00)))
      (i32.or
        (i32.and (i32.shr_u (local.get $digits) (i32.const 12)) (i32.const 0xf0))
        (i32.shr_u (local.get $digits) (i32.const 24)))))

  ;; Copies the inside of the string at $from to $to, as JSON.stringify would write it, up to its closing quote or to one of the last 16
  ;; bytes before $end; that address is in 0x112080. Source and target do not overlap. Returns the end of what was written.
  (func $copyString (export "copyString") (param $from i32) (param $to i32) (param $end i32) (result i32)
    (local $bytes v128) (local $plain i32) (local $unit i32) (local $low i32) (local $last i32)
    (local.set $last (i32.sub (local.get $end) (i32.const 16)))
    (loop $next
      (if (i32.gt_s (local.get $from) (local.get $last))
        (then
          (i32.store (i32.const 0x112080) (local.get $from))
          (return (local.get $to))))
      (local.set $bytes (v128.load (local.get $from)))
      (v128.store (local.get $to) (local.get $bytes))
      (local.set $plain
        (i32.ctz
          (i32.or (i32.const 0x10000)
            (i8x16.bitmask
              (v128.or
                (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x5c)))
                (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x22))))))))
      (local.set $from (i32.add (local.get $from) (local.get $plain)))
      (local.set $to (i32.add (local.get $to) (local.get $plain)))
      (br_if $next (i32.eq (local.get $plain) (i32.const 16)))
      (br_if $next (i32.gt_s (local.get $from) (local.get $last)))
      (if (i32.eq (i32.load8_u (local.get $from)) (i32.const 0x22))
        (then
          (i32.store (i32.const 0x112080) (local.get $from))
          (return (local.get $to))))
      (local.set $unit (i32.load8_u offset=1 (local.get $from)))
      (if (i32.eq (local.get $unit) (i32.const 0x2f))
        (then
          (i32.store8 (local.get $to) (i32.const 0x2f))
          (local.set $to (i32.add (local.get $to) (i32.const 1)))
          (local.set $from (i32.add (local.get $from) (i32.const 2)))
          (br $next)))
      (if (i32.ne (local.get $unit) (i32.const 0x75))
        (then
          (i32.store16 (local.get $to) (i32.load16_u (local.get $from)))
          (local.set $to (i32.add (local.get $to) (i32.const 2)))
          (local.set $from (i32.add (local.get $from) (i32.const 2)))
          (br $next)))
      ;; Text of another script has one after the other.
      (loop $unicode
        (local.set $unit (call $hex (i32.add (local.get $from) (i32.const 2))))
        (if (i32.lt_u (local.get $unit) (i32.const 0x80))
          (then
            (local.set $low (i32.load8_u offset=0x112000 (local.get $unit)))
            (if (i32.ne (local.get $low) (i32.const 0))
              (then
                (i32.store16 (local.get $to) (i32.or (i32.const 0x5c) (i32.shl (local.get $low) (i32.const 8))))
                (local.set $to (i32.add (local.get $to) (i32.const 2)))
                (local.set $from (i32.add (local.get $from) (i32.const 6)))
                (br $next)))
            (if (i32.ge_u (local.get $unit) (i32.const 0x20))
              (then
                (i32.store8 (local.get $to) (local.get $unit))
                (local.set $to (i32.add (local.get $to) (i32.const 1)))
                (local.set $from (i32.add (local.get $from) (i32.const 6)))
                (br $next)))))
        (if (i32.and (i32.ge_u (local.get $unit) (i32.const 0x80)) (i32.ne (i32.and (local.get $unit) (i32.const 0xf800)) (i32.const 0xd800)))
          (then
            (local.set $from (i32.add (local.get $from) (i32.const 6)))
            (if (i32.lt_u (local.get $unit) (i32.const 0x800))
              (then
                (i32.store8 (local.get $to) (i32.or (i32.const 0xc0) (i32.shr_u (local.get $unit) (i32.const 6))))
                (i32.store8 offset=1 (local.get $to) (i32.or (i32.const 0x80) (i32.and (local.get $unit) (i32.const 63))))
                (local.set $to (i32.add (local.get $to) (i32.const 2)))
                (br_if $unicode (i32.and (i32.eq (i32.load16_u (local.get $from)) (i32.const 0x755c)) (i32.le_s (local.get $from) (local.get $last))))
                (br $next)))
            (i32.store8 (local.get $to) (i32.or (i32.const 0xe0) (i32.shr_u (local.get $unit) (i32.const 12))))
            (i32.store8 offset=1 (local.get $to) (i32.or (i32.const 0x80) (i32.and (i32.shr_u (local.get $unit) (i32.const 6)) (i32.const 63))))
            (i32.store8 offset=2 (local.get $to) (i32.or (i32.const 0x80) (i32.and (local.get $unit) (i32.const 63))))
            (local.set $to (i32.add (local.get $to) (i32.const 3)))
            (br_if $unicode (i32.and (i32.eq (i32.load16_u (local.get $from)) (i32.const 0x755c)) (i32.le_s (local.get $from) (local.get $last))))
            (br $next)))
        ;; A surrogate pair: `\uD83D\uDE00`.
        (if (i32.and
              (i32.eq (i32.and (local.get $unit) (i32.const 0xfc00)) (i32.const 0xd800))
              (i32.eq (i32.load16_u offset=6 (local.get $from)) (i32.const 0x755c)))
          (then
            (local.set $low (call $hex (i32.add (local.get $from) (i32.const 8))))
            (if (i32.eq (i32.and (local.get $low) (i32.const 0xfc00)) (i32.const 0xdc00))
              (then
                (local.set $unit
                  (i32.add (i32.const 0x10000)
                    (i32.or
                      (i32.shl (i32.and (local.get $unit) (i32.const 0x3ff)) (i32.const 10))
                      (i32.and (local.get $low) (i32.const 0x3ff)))))
                (i32.store8 (local.get $to) (i32.or (i32.const 0xf0) (i32.shr_u (local.get $unit) (i32.const 18))))
                (i32.store8 offset=1 (local.get $to) (i32.or (i32.const 0x80) (i32.and (i32.shr_u (local.get $unit) (i32.const 12)) (i32.const 63))))
                (i32.store8 offset=2 (local.get $to) (i32.or (i32.const 0x80) (i32.and (i32.shr_u (local.get $unit) (i32.const 6)) (i32.const 63))))
                (i32.store8 offset=3 (local.get $to) (i32.or (i32.const 0x80) (i32.and (local.get $unit) (i32.const 63))))
                (local.set $to (i32.add (local.get $to) (i32.const 4)))
                (local.set $from (i32.add (local.get $from) (i32.const 12)))
                (br_if $unicode (i32.and (i32.eq (i32.load16_u (local.get $from)) (i32.const 0x755c)) (i32.le_s (local.get $from) (local.get $last))))
                (br $next)))))
      )
      ;; A control character or half of a pair keeps its escape, with small letters: bit 5 is set in digits too.
      (local.set $low (i32.or (i32.load offset=2 (local.get $from)) (i32.const 0x20202020)))
      (i32.store16 (local.get $to) (i32.const 0x755c))
      (i32.store offset=2 (local.get $to) (local.get $low))
      (local.set $to (i32.add (local.get $to) (i32.const 6)))
      (local.set $from (i32.add (local.get $from) (i32.const 6)))
      (br $next))
    (unreachable))

  ;; Rewrites the JSON value `[$from, $end)` in place without white space and with the shortest escapes. Members of objects at nesting
  ;; $markDepth that are named `cache_control` are left out; 0 is none. Returns its end.
  (func (export "compact") (param $from i32) (param $end i32) (param $markDepth i32) (result i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $at i32) (local $slashes i64) (local $quotes i64) (local $escaped i64) (local $carry i64)
    (local $follows i64) (local $odd i64) (local $sum i64)
    (local $inside i64) (local $before i64) (local $faults i64) (local $marks i64)
    (local $byte i32) (local $to i32) (local $depth i32) (local $markAt i32)
    ;; Most values are compact as they come: a fast look at 64 bytes at a time.
    (local.set $at (local.get $from))
    (block $needed
      (loop $next
        (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (local.get $end))))
        (local.set $a (v128.load (local.get $at)))
        (local.set $b (v128.load offset=16 (local.get $at)))
        (local.set $c (v128.load offset=32 (local.get $at)))
        (local.set $d (v128.load offset=48 (local.get $at)))
        (local.set $slashes
          (i64.or
            (i64.or
              (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x5c)))))
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x5c))))) (i64.const 16)))
            (i64.or
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x5c))))) (i64.const 32))
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x5c))))) (i64.const 48)))))
        (local.set $quotes
          (i64.or
            (i64.or
              (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x22)))))
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x22))))) (i64.const 16)))
            (i64.or
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x22))))) (i64.const 32))
              (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x22))))) (i64.const 48)))))
        (local.set $faults (i64.const 0))
        (if (i64.ne (i64.or (local.get $slashes) (local.get $carry)) (i64.const 0))
          (then
            ;; The bytes that are escaped: a run of backslashes escapes every second byte from the one behind its first (Langdale and
            ;; Lemire, "Parsing Gigabytes of JSON per Second", section 3.1.1).
            (local.set $slashes (i64.and (local.get $slashes) (i64.xor (local.get $carry) (i64.const -1))))
            (local.set $follows (i64.or (i64.shl (local.get $slashes) (i64.const 1)) (local.get $carry)))
            (local.set $odd
              (i64.and (i64.and (local.get $slashes) (i64.const 0xaaaaaaaaaaaaaaaa)) (i64.xor (local.get $follows) (i64.const -1))))
            (local.set $sum (i64.add (local.get $odd) (local.get $slashes)))
            (local.set $carry (i64.extend_i32_u (i64.lt_u (local.get $sum) (local.get $odd))))
            (local.set $escaped
              (i64.and
                (i64.xor (i64.const 0x5555555555555555) (i64.shl (local.get $sum) (i64.const 1)))
                (local.get $follows)))
            (local.set $quotes (i64.and (local.get $quotes) (i64.xor (local.get $escaped) (i64.const -1))))
            (local.set $faults
              (i64.and (local.get $escaped)
                (i64.or
                  (i64.or
                    (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x2f))))))
                    (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x2f)))))) (i64.const 16)))
                  (i64.or
                    (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x2f)))))) (i64.const 32))
                    (i64.shl (i64.extend_i32_u (i8x16.bitmask (v128.or (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x75))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x2f)))))) (i64.const 48))))))))
        ;; The bytes from an opening quote up to the closing one: the parity of the quotes before.
        (local.set $inside (local.get $quotes))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 1))))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 2))))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 4))))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 8))))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 16))))
        (local.set $inside (i64.xor (local.get $inside) (i64.shl (local.get $inside) (i64.const 32))))
        (local.set $inside (i64.xor (local.get $inside) (local.get $before)))
        (local.set $before (i64.shr_s (local.get $inside) (i64.const 63)))
        (local.set $faults
          (i64.or (local.get $faults)
            (i64.and (i64.xor (local.get $inside) (i64.const -1))
              (i64.or
                (i64.or
                  (i64.extend_i32_u (i8x16.bitmask (i8x16.le_u (local.get $a) (i8x16.splat (i32.const 0x20)))))
                  (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.le_u (local.get $b) (i8x16.splat (i32.const 0x20))))) (i64.const 16)))
                (i64.or
                  (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.le_u (local.get $c) (i8x16.splat (i32.const 0x20))))) (i64.const 32))
                  (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.le_u (local.get $d) (i8x16.splat (i32.const 0x20))))) (i64.const 48)))))))
        ;; Of the bytes before the end.
        (if (i32.lt_u (i32.sub (local.get $end) (local.get $at)) (i32.const 64))
          (then
            (local.set $faults
              (i64.and (local.get $faults)
                (i64.sub
                  (i64.shl (i64.const 1) (i64.extend_i32_u (i32.sub (local.get $end) (local.get $at))))
                  (i64.const 1))))))
        (br_if $needed (i64.ne (local.get $faults) (i64.const 0)))
        (if (local.get $markDepth)
          (then
            ;; Strings that begin with `c`: its bits moved to the byte before; one beyond these 64 bytes is looked at in any case.
            (local.set $marks
              (i64.and (i64.and (local.get $quotes) (local.get $inside))
                (i64.or (i64.const 0x8000000000000000)
                  (i64.shr_u
                    (i64.or
                      (i64.or
                        (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x63)))))
                        (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x63))))) (i64.const 16)))
                      (i64.or
                        (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x63))))) (i64.const 32))
                        (i64.shl (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x63))))) (i64.const 48))))
                    (i64.const 1)))))
            (block $none
              (loop $mark
                (br_if $none (i64.eqz (local.get $marks)))
                ;; `"cache_c`
                (br_if $needed
                  (i64.eq
                    (i64.load (i32.add (local.get $at) (i32.wrap_i64 (i64.ctz (local.get $marks)))))
                    (i64.const 0x635f656863616322)))
                (local.set $marks (i64.and (local.get $marks) (i64.sub (local.get $marks) (i64.const 1))))
                (br $mark)))))
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (br $next)))
    (local.set $to (local.get $from))
    (local.set $end (i32.sub (local.get $end) (local.get $from)))
    (memory.copy (i32.const 0x112100) (local.get $from) (local.get $end))
    (local.set $from (i32.const 0x112100))
    (local.set $end (i32.add (local.get $end) (i32.const 0x112100)))
    (loop $next
      (if (i32.ge_u (local.get $from) (local.get $end)) (then (return (local.get $to))))
      (local.set $byte (i32.load8_u (local.get $from)))
      (if (i32.eq (local.get $byte) (i32.const 0x22))
        (then
          (i32.store8 (local.get $to) (i32.const 0x22))
          (local.set $at (local.get $to))
          (local.set $to (call $copyString
              (i32.add (local.get $from) (i32.const 1))
              (i32.add (local.get $to) (i32.const 1))
              (i32.add (local.get $end) (i32.const 16))))
          (i32.store8 (local.get $to) (i32.const 0x22))
          (local.set $to (i32.add (local.get $to) (i32.const 1)))
          (local.set $from (i32.add (i32.load (i32.const 0x112080)) (i32.const 1)))
          (br_if $next (i32.ne (local.get $depth) (local.get $markDepth)))
          (br_if $next (i32.or (i32.eqz (local.get $markDepth)) (i32.ne (local.get $markAt) (i32.const 0))))
          ;; A string at this depth is a key if it follows `{` or `,`; `"cache_control"` has 15 bytes.
          (br_if $next (i32.ne (i32.sub (local.get $to) (local.get $at)) (i32.const 15)))
          (br_if $next (i64.ne (i64.load (local.get $at)) (i64.const 0x635f656863616322)))
          (br_if $next (i64.ne (i64.load offset=7 (local.get $at)) (i64.const 0x226c6f72746e6f63)))
          (local.set $byte (i32.load8_u (i32.sub (local.get $at) (i32.const 1))))
          (if (i32.or (i32.eq (local.get $byte) (i32.const 0x7b)) (i32.eq (local.get $byte) (i32.const 0x2c)))
            (then (local.set $markAt (local.get $at))))
          (br $next)))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (br_if $next (i32.le_u (local.get $byte) (i32.const 0x20)))
      ;; `[` and `{`, `]` and `}` differ in bit 5 alone; a comma is none of them.
      (if (i32.eq (i32.or (local.get $byte) (i32.const 0x20)) (i32.const 0x7b))
        (then (local.set $depth (i32.add (local.get $depth) (i32.const 1)))))
      (if (i32.and (i32.ne (local.get $markAt) (i32.const 0)) (i32.eq (local.get $depth) (local.get $markDepth)))
        (then
          ;; It was an element of an array.
          (if (i32.eq (local.get $byte) (i32.const 0x5d)) (then (local.set $markAt (i32.const 0))))
          (if (i32.eq (local.get $byte) (i32.const 0x2c))
            (then
              (local.set $to (local.get $markAt))
              (local.set $markAt (i32.const 0))
              (br $next)))
          (if (i32.eq (local.get $byte) (i32.const 0x7d))
            (then
              (local.set $to (local.get $markAt))
              (local.set $markAt (i32.const 0))
              ;; The comma before it.
              (if (i32.eq (i32.load8_u (i32.sub (local.get $to) (i32.const 1))) (i32.const 0x2c))
                (then (local.set $to (i32.sub (local.get $to) (i32.const 1)))))))))
      (if (i32.eq (i32.or (local.get $byte) (i32.const 0x20)) (i32.const 0x7d))
        (then (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))))
      (i32.store8 (local.get $to) (local.get $byte))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (br $next))
    (unreachable))

  (func $merge (param $hash i64) (param $lane i64) (result i64)
    (i64.add
      (i64.mul
        (i64.xor (local.get $hash)
          (i64.mul
            (i64.rotl (i64.mul (local.get $lane) (i64.const 0xc2b2ae3d27d4eb4f)) (i64.const 31))
            (i64.const 0x9e3779b185ebca87)))
        (i64.const 0x9e3779b185ebca87))
      (i64.const 0x85ebca77c2b2ae63)))

  ;; XXH64 (Y. Collet, xxHash specification 0.1.1) of `[$at, $end)`, a multiple of 32 bytes that is not 0.
  (func $xxh64 (param $at i32) (param $end i32) (param $seed i64) (result i64)
    (local $a i64) (local $b i64) (local $c i64) (local $d i64) (local $length i64) (local $hash i64)
    (local.set $length (i64.extend_i32_u (i32.sub (local.get $end) (local.get $at))))
    (local.set $a (i64.add (local.get $seed) (i64.const 0x60ea27eeadc0b5d6)))
    (local.set $b (i64.add (local.get $seed) (i64.const 0xc2b2ae3d27d4eb4f)))
    (local.set $c (local.get $seed))
    (local.set $d (i64.sub (local.get $seed) (i64.const 0x9e3779b185ebca87)))
    (loop $next
      (local.set $a
        (i64.mul
          (i64.rotl (i64.add (local.get $a) (i64.mul (i64.load (local.get $at)) (i64.const 0xc2b2ae3d27d4eb4f))) (i64.const 31))
          (i64.const 0x9e3779b185ebca87)))
      (local.set $b
        (i64.mul
          (i64.rotl (i64.add (local.get $b) (i64.mul (i64.load offset=8 (local.get $at)) (i64.const 0xc2b2ae3d27d4eb4f))) (i64.const 31))
          (i64.const 0x9e3779b185ebca87)))
      (local.set $c
        (i64.mul
          (i64.rotl (i64.add (local.get $c) (i64.mul (i64.load offset=16 (local.get $at)) (i64.const 0xc2b2ae3d27d4eb4f))) (i64.const 31))
          (i64.const 0x9e3779b185ebca87)))
      (local.set $d
        (i64.mul
          (i64.rotl (i64.add (local.get $d) (i64.mul (i64.load offset=24 (local.get $at)) (i64.const 0xc2b2ae3d27d4eb4f))) (i64.const 31))
          (i64.const 0x9e3779b185ebca87)))
      (local.set $at (i32.add (local.get $at) (i32.const 32)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
    (local.set $hash
      (i64.add
        (i64.add (i64.rotl (local.get $a) (i64.const 1)) (i64.rotl (local.get $b) (i64.const 7)))
        (i64.add (i64.rotl (local.get $c) (i64.const 12)) (i64.rotl (local.get $d) (i64.const 18)))))
    (local.set $hash (call $merge (local.get $hash) (local.get $a)))
    (local.set $hash (call $merge (local.get $hash) (local.get $b)))
    (local.set $hash (call $merge (local.get $hash) (local.get $c)))
    (local.set $hash (call $merge (local.get $hash) (local.get $d)))
    (local.set $hash (i64.add (local.get $hash) (local.get $length)))
    (local.set $hash
      (i64.mul (i64.xor (local.get $hash) (i64.shr_u (local.get $hash) (i64.const 33))) (i64.const 0xc2b2ae3d27d4eb4f)))
    (local.set $hash
      (i64.mul (i64.xor (local.get $hash) (i64.shr_u (local.get $hash) (i64.const 29))) (i64.const 0x165667b19e3779f9)))
    (i64.xor (local.get $hash) (i64.shr_u (local.get $hash) (i64.const 32))))

  ;; Replaces the hash at $cell by that of `[$at, $end)`, a multiple of 32 bytes that is not 0, with the old one as its seed.
  (func (export "hash") (param $at i32) (param $end i32) (param $cell i32)
    (i64.store (local.get $cell) (call $xxh64 (local.get $at) (local.get $end) (i64.load (local.get $cell)))))

  ;; Hashes $count blocks of $length bytes from $at on and writes their hashes to $to. The seed of each is the hash before it, which
  ;; for the first block stands 8 bytes before $to.
  (func (export "hashBlocks") (param $at i32) (param $length i32) (param $count i32) (param $to i32)
    (local $hash i64) (local $end i32)
    (local.set $hash (i64.load (i32.sub (local.get $to) (i32.const 8))))
    (local.set $end (i32.add (local.get $at) (i32.mul (local.get $length) (local.get $count))))
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $end)) (then (return)))
      (local.set $hash (call $xxh64 (local.get $at) (i32.add (local.get $at) (local.get $length)) (local.get $hash)))
      (i64.store (local.get $to) (local.get $hash))
      (local.set $at (i32.add (local.get $at) (local.get $length)))
      (local.set $to (i32.add (local.get $to) (i32.const 8)))
      (br $next))))
