@0xc3a1f7d0925be684;

interface Bench {
  add @0 (a :Int32, b :Int32) -> (sum :Int32);
  nap @1 (a :Int32, b :Int32) -> (sum :Int32);
  echo @2 (data :Data) -> (data :Data);
}
