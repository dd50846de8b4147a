import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { PassThrough, Readable } from "node:stream";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { ArchiveError, untarGz } from "../../../src/kit/untar.ts";

const limits = { bytes: 1024 ** 2, entries: 100 };

async function useDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "untar-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

interface Given {
  readonly name: string;
  readonly content?: string;
  readonly type?: "0" | "1" | "2" | "5" | "6";
  readonly mode?: number;
  readonly linkname?: string;
}

/** A header as tar writes it, with a correct checksum. */
function aHeader(
  name: string,
  size: number,
  flag: string,
  { mode = 0o644, linkname = "" }: Partial<Given> = {},
): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0, 100);
  header.write(`${mode.toString(8).padStart(7, "0")}\0`, 100);
  header.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  header.write(" ".repeat(8), 148);
  header.write(flag, 156);
  header.write(linkname, 157, 100);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

const padded = (content: Buffer) => Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);

/** A pax record with its own length at the start. */
function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  const length = bytes + String(bytes + String(bytes).length).length;
  return Buffer.from(`${length}${rest}`);
}

function anEntry({ name, content = "", type = "0", ...more }: Given): Buffer {
  const data = Buffer.from(content);
  const long = Buffer.byteLength(name) > 100;
  const pax = paxRecord("path", name);
  return Buffer.concat([
    ...(long ? [aHeader("pax", pax.length, "x"), padded(pax)] : []),
    aHeader(long ? "long" : name, data.length, type, more),
    padded(data),
  ]);
}

function anArchive(...entries: Given[]): Buffer {
  return gzipSync(Buffer.concat([...entries.map(anEntry), Buffer.alloc(1024)]));
}

/** Splits an archive into small pieces, as a network delivers it. */
function* pieces(archive: Buffer, size = 700): Generator<Buffer> {
  for (let at = 0; at < archive.length; at += size) yield archive.subarray(at, at + size);
}

async function unpacked(...entries: Given[]): Promise<string> {
  const dir = await useDirectory();
  await untarGz(Readable.from(pieces(anArchive(...entries))), dir, limits);
  return dir;
}

const files = async (dir: string) => (await readdir(dir, { recursive: true })).toSorted();

test("files and directories are unpacked as they were packed, however long their names are", async () => {
  const long = `${"d".repeat(120)}/${"é".repeat(90)}.yaml`;
  const dir = await unpacked(
    { name: ".", type: "5" },
    { name: "app", type: "5" },
    { name: "app/run.sh", content: "echo", mode: 0o755 },
    { name: "./no/directory/before.yaml", content: "x".repeat(5_000), mode: 0o644 },
    { name: long, content: "far" },
    { name: "empty" },
  );
  expect(await readFile(join(dir, "no/directory/before.yaml"), "utf8")).toBe("x".repeat(5_000));
  expect(await readFile(join(dir, long), "utf8")).toBe("far");
  expect(await readFile(join(dir, "empty"), "utf8")).toBe("");
  expect((await stat(join(dir, "app/run.sh"))).mode & 0o777).toBe(0o700);
  expect((await stat(join(dir, "empty"))).mode & 0o777).toBe(0o600);
});

test("links, devices and git's own directories are left out", async () => {
  const dir = await unpacked(
    { name: "passwd", type: "2", linkname: "/etc/passwd" },
    { name: "hard", type: "1", linkname: "kept" },
    { name: "pipe", type: "6" },
    { name: ".git/config", content: "[core]\nfsmonitor = touch /tmp/x" },
    { name: "sub/.GIT", content: "gitdir: /elsewhere" },
    { name: "kept", content: "yes" },
  );
  expect(await files(dir)).toEqual(["kept"]);
});

test.each(["../out", "a/../../out", "/etc/passwd", "a\\..\\out"])("a file named %s is refused", async (name) => {
  await expect(unpacked({ name, content: "x" })).rejects.toThrow(/would lead out of it/);
});

test("an archive larger than the limits is refused, also when it is small while compressed", async () => {
  const large = { name: "large", content: "0".repeat(limits.bytes + 1) };
  expect(anArchive(large).length).toBeLessThan(10_000);
  await expect(unpacked(large)).rejects.toThrow(/larger than 1 MiB or 100 files/);
  const many = Array.from({ length: 101 }, (_, i) => ({ name: `f${i}` }));
  await expect(unpacked(...many)).rejects.toThrow(ArchiveError);
  const dir = await useDirectory();
  const bomb = gzipSync(Buffer.alloc(8 * 1024 ** 2)); // nothing but end-of-archive blocks
  await expect(untarGz(Readable.from([bomb]), dir, limits)).rejects.toThrow(ArchiveError);
});

test("an invalid or incomplete archive is refused", async () => {
  const dir = await useDirectory();
  const whole = anArchive({ name: "a", content: "a".repeat(10_000) });
  const bad = [
    Buffer.from("no archive"),
    gzipSync("no archive".repeat(100)),
    whole.subarray(0, whole.length - 20),
    Buffer.alloc(0),
  ];
  for (const archive of bad) await expect(untarGz(Readable.from([archive]), dir, limits)).rejects.toThrow(ArchiveError);
  await expect(unpacked({ name: "a", content: "a" }, { name: "a/b", content: "b" })).rejects.toThrow(ArchiveError);
});

test("unpacking an archive that never ends stops with the abort's reason", async () => {
  const dir = await useDirectory();
  const archive = anArchive({ name: "a", content: "a".repeat(1_000) });
  const abort = new AbortController();
  const endless = new PassThrough();
  endless.write(archive.subarray(0, 30), () => abort.abort(new Error("enough")));
  await expect(untarGz(endless, dir, limits, abort.signal)).rejects.toThrow("enough");
});
