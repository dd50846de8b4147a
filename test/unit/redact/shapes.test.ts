import { expect, test } from "vitest";
import { createRedactor } from "../../../src/redact/redactor.ts";

const { text } = createRedactor([]);
const x = (length: number) => "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA".repeat(4).slice(0, length);

test.each([
  [`ghp_${x(36)}`],
  [`github_pat_${x(22)}_${x(59)}`],
  [`glpat-${x(20)}`],
  [`gldt-${x(20)}`],
  ["AKIAIOSFODNN7EXAMPLE"],
  [`eyJ${x(20)}.eyJ${x(40)}.${x(43)}`],
  [`xoxb-123456789012-${x(24)}`],
  [`sk_live_${x(24)}`],
  [`npm_${x(36)}`],
  [`AIza${x(35)}`],
  [`hvs.${x(24)}`],
  [`AGE-SECRET-KEY-1${x(58).toUpperCase()}`],
  [`AGE-SECRET-KEY-PQ-1${x(58).toUpperCase()}`],
])("a token is recognised by its form: %s", (token) => {
  expect(text(`before "${token}" after`)).toBe('before "*****" after');
});

test.each([
  ["https://user:pass@host/path", "https://*****@host/path"],
  ["https://ghp-or-other@host/path", "https://*****@host/path"],
  ["https://user:p@ss@host/path", "https://*****@host/path"],
  ["ssh://git@host/path", "ssh://git@host/path"],
  ["ssh://git:pass@host/path", "ssh://*****@host/path"],
  ["https://host/path?a=1&access_token=abc&b=2", "https://host/path?a=1&access_token=*****&b=2"],
  [
    "https://s3/x?X-Amz-Credential=AK%2Fx&X-Amz-Signature=0af",
    "https://s3/x?X-Amz-Credential=*****&X-Amz-Signature=*****",
  ],
  ["https://blob/x?sv=2020&sig=a%2Bb%3D", "https://blob/x?sv=2020&sig=*****"],
  ["Authorization: Bearer abcdefgh", "Authorization: Bearer *****"],
  ['{"authorization": "Basic YWJjOmRlZg=="}', '{"authorization": "Basic *****"}'],
  ["https://hooks.slack.com/services/T0/B0/abc", "https://hooks.slack.com/services/*****"],
  ["AccountName=a;AccountKey=" + x(86) + "==;", "AccountName=a;AccountKey=*****;"],
])("a login within a URL or a header is hidden: %s", (before, after) => {
  expect(text(before)).toBe(after);
});

test("a private key is hidden line by line, even if its end is missing", () => {
  const key = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef";
  expect(text(`key: |\n${key}\n-----END RSA PRIVATE KEY-----\nmore`)).toBe("key: |\n*****\n*****\n*****\n*****\nmore");
  expect(text(key)).toBe("*****\n*****\n*****");
});

test.each([
  [`a.b-eyJ${x(20)}.${x(40)}.${x(43)}.c`, "a.b-*****.c"],
  [`id=eyJ${x(20)}.${x(40)}.`, "id=*****"],
  [`eyJ${x(7)}.${x(40)}.${x(43)}`, `eyJ${x(7)}.${x(40)}.${x(43)}`],
  [`keyJ${x(20)}.${x(40)}.${x(43)}`, `keyJ${x(20)}.${x(40)}.${x(43)}`],
])("in a run of characters only the web token is hidden: %s", (before, after) => {
  expect(text(before)).toBe(after);
});

test.each([
  ["postgres://ada:s3cret-word@host/shop", "s3cret-word"],
  ["url=SOME-driver+pg://ada:s3cret-word@host", "s3cret-word"],
  ["see //ada:s3cret-word@host", undefined],
])("the password of a URL in a secret value is a secret by itself: %s", (value, password) => {
  const redactor = createRedactor([value]);
  expect(redactor.text("it is s3cret-word here")).toBe(password ? "it is ***** here" : "it is s3cret-word here");
});

// Each would take hours if the time grew with the square of the length, far longer than the test's time-out.
test.each([
  ["beginnings of web tokens", "eyJ-".repeat(250_000)],
  ["letters and dots", "a.".repeat(500_000)],
  ["dots", ".".repeat(1_000_000)],
])("a megabyte of %s is searched quickly, as text and as a secret", (_, value) => {
  expect(text(value)).toBe(value);
  expect(createRedactor([value]).text("some words")).toBe("some words");
});

test("a secret value full of blank lines is split quickly", () => {
  expect(createRedactor([`first-line${"\n".repeat(99_000)}other-line`]).text("an other-line")).toBe("an *****");
});

test.each([
  "image: registry.example.com/org/app@sha256:0123456789abcdef",
  "see https://kluctl.io/docs?page=2#top",
  "user@example.com and git@github.com:org/repo.git",
  "gl-something, ghost, eyJ, sketch, AKIA",
])("ordinary text stays unchanged: %s", (ordinary) => {
  expect(text(ordinary)).toBe(ordinary);
});
