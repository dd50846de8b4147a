/** Which archives a preview runner accepts, whoever created them. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { pack, slotLimits, unpack } from "../../../src/preview-runner/archive.ts";
import { ArchiveError } from "../../../src/kit/untar.ts";

const [end, directory, file, link] = [0, 1, 2, 4];
const never = new AbortController().signal;

async function useDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "archive-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

function anEntry(kind: number, name = "", content = "", size = content.length): Buffer {
  const head = Buffer.alloc(9);
  head.writeUInt8(kind, 0);
  head.writeUInt16BE(name.length, 1);
  head.writeUIntBE(size, 3, 6);
  return Buffer.concat([head, Buffer.from(name + content, "latin1")]);
}

const theEnd = anEntry(end);

test.each([
  ["a name that leads out", [anEntry(file, "../x", "x"), theEnd], "would lead out of it"],
  ["an absolute name", [anEntry(file, "/x", "x"), theEnd], "would lead out of it"],
  ["git's own", [anEntry(directory, "clone"), anEntry(file, "clone/.Git", "x"), theEnd], "would lead out of it"],
  ["one name twice", [anEntry(file, "a", "x"), anEntry(file, "a", "y"), theEnd], "contains a name twice"],
  ["a file for a directory", [anEntry(file, "a", "x"), anEntry(file, "a/b", "y"), theEnd], "contains a name twice"],
  [
    "a link in it has a link in its path",
    [anEntry(link, "a", "/tmp"), anEntry(link, "a/b", "x"), theEnd],
    "a link in it has a link in its path",
  ],
  ["something else", [Buffer.from("GET / HTTP/1.1\r\n\r\n"), theEnd], "it is not an archive"],
  ["an archive that breaks off", [anEntry(file, "a", "x")], "it ends too early"],
  ["a file that breaks off", [anEntry(file, "a", "x", 5)], "it ends too early"],
  ["nothing", [], "it ends too early"],
])("%s is refused", async (_what, entries, words) => {
  const dir = await useDirectory();

  const unpacking = unpack(Readable.from(entries), dir, slotLimits, never);

  await expect(unpacking).rejects.toThrow(words);
  await expect(unpacking).rejects.toBeInstanceOf(ArchiveError);
});

test.each([
  ["entries", 3, "it holds more than 3 files"],
  ["links", 1, "it holds more than 1 symbolic links"],
  ["bytes", 5, "it holds more than"],
  ["nameBytes", 10, "the names in it are longer than"],
])("more %s than allowed are refused by the sender and the receiver", async (limit, most, words) => {
  const [from, to] = [await useDirectory(), await useDirectory()];
  await mkdir(join(from, "dir"));
  await writeFile(join(from, "dir", "file"), "123456");
  for (const name of ["one", "two"]) await symlink("target", join(from, name));
  const limits = { ...slotLimits, [limit]: most };

  await expect(buffer(pack(from, limits))).rejects.toThrow(words);
  await expect(unpack(Readable.from(pack(from, slotLimits)), to, limits, never)).rejects.toThrow(words);
});

test("the stream may be split into pieces anywhere", async () => {
  const [from, to] = [await useDirectory(), await useDirectory()];
  await writeFile(join(from, "file"), "content");
  await symlink("file", join(from, "link"));
  const bytes = [...(await buffer(pack(from, slotLimits)))].map((byte) => Buffer.from([byte]));

  await unpack(Readable.from(bytes), to, slotLimits, never);

  expect((await readdir(to)).toSorted()).toEqual(["file", "link"]);
  expect(await readFile(join(to, "link"), "utf8")).toBe("content");
});
