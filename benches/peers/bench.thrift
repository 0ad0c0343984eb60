namespace rs bench

service Bench {
    i32 Add(1: required i32 a, 2: required i32 b),
    i32 Nap(1: required i32 a, 2: required i32 b),
    binary Echo(1: required binary data),
    oneway void Note(1: required i32 a, 2: required i32 b),
}
