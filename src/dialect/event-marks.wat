;; One pass over an event of a stream, 16 bytes at a time. `npm run wasm` compiles this file to event-marks-wasm.ts.

(module
  ;; 0x0010: the event, up to 32 KiB, and room for loads that pass its end.
  (memory (export "memory") 1 1)

  ;; Of the event that ends at $end: the address of the last quote that closes a name whose last bytes are $low and $high without their
  ;; lowest $shift bits, 0 if there is none; -1 if the event has a line end. Bit 30 is set if a name ends with `usage`.
  (func (export "marks") (param $end i32) (param $low i32) (param $high i32) (param $shift i32) (result i32)
    (local $at i32) (local $bytes v128) (local $quotes i32) (local $quote i32) (local $word i64) (local $mark i64)
    (local $bits i64) (local $last i32) (local $usage i32) (local $before v128) (local $letter v128)
    (local.set $mark
      (i64.or (i64.extend_i32_u (local.get $low)) (i64.shl (i64.extend_i32_u (local.get $high)) (i64.const 32))))
    (local.set $bits (i64.extend_i32_u (local.get $shift)))
    (local.set $letter (i8x16.splat (i32.shr_u (local.get $high) (i32.const 16))))
    (local.set $mark (i64.shr_u (local.get $mark) (local.get $bits)))
    (local.set $at (i32.const 0x10))
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $end))
        (then (return (i32.or (local.get $last) (i32.shl (local.get $usage) (i32.const 30))))))
      (local.set $bytes (v128.load (local.get $at)))
      (local.set $quotes
        (i32.shl
          (i8x16.bitmask
            (v128.or
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x0a)))
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x0d)))))
          (i32.const 16)))
      ;; Quotes behind an `e`, or behind the last letter of the name.
      (local.set $before (v128.load (i32.sub (local.get $at) (i32.const 1))))
      (local.set $quotes
        (i32.or (local.get $quotes)
          (i8x16.bitmask
            (v128.and
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const 0x22)))
              (v128.or
                (i8x16.eq (local.get $before) (i8x16.splat (i32.const 0x65)))
                (i8x16.eq (local.get $before) (local.get $letter)))))))
      ;; Of the bytes before the end.
      (if (i32.lt_u (i32.sub (local.get $end) (local.get $at)) (i32.const 16))
        (then
          (local.set $quotes
            (i32.and (local.get $quotes)
              (i32.mul
                (i32.sub (i32.shl (i32.const 1) (i32.sub (local.get $end) (local.get $at))) (i32.const 1))
                (i32.const 0x10001))))))
      (if (i32.ge_u (local.get $quotes) (i32.const 0x10000)) (then (return (i32.const -1))))
      (block $none
        (loop $each
          (br_if $none (i32.eqz (local.get $quotes)))
          (local.set $quote (i32.add (local.get $at) (i32.ctz (local.get $quotes))))
          (local.set $quotes (i32.and (local.get $quotes) (i32.sub (local.get $quotes) (i32.const 1))))
          (local.set $word (i64.load (i32.sub (local.get $quote) (i32.const 7))))
          (if (i64.eq (i64.shr_u (local.get $word) (local.get $bits)) (local.get $mark))
            (then (local.set $last (local.get $quote))))
          ;; `usage"`
          (if (i64.eq (i64.shr_u (local.get $word) (i64.const 16)) (i64.const 0x226567617375))
            (then (local.set $usage (i32.const 1))))
          (br $each)))
      (local.set $at (i32.add (local.get $at) (i32.const 16)))
      (br $next))
    (unreachable)))
