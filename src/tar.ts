/** Reads a tar as it arrives: ustar, with the long names of pax and GNU. Knows nothing of where its entries go. */

/** What is no tar, or breaks off. */
class TarError extends Error {
  override name = "TarError";
}

export interface TarEntry {
  /** As the archive has it: nobody has looked where it leads. */
  readonly name: string;
  readonly type: "file" | "directory" | "other";
  /** Of the content. */
  readonly size: number;
  readonly mode: number;
  /** What of it is not read by the time the next entry is asked for is skipped. */
  readonly content: AsyncIterable<Buffer>;
}

const block = 512;
/** Of what describes an entry besides its header: names have a few hundred bytes. */
const mostExtra = 256 * 1024;

export async function* readTar(chunks: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const bytes = createByteReader(chunks);
  let global: Extra = {};
  let extra: Extra = {};
  for (;;) {
    const header = await bytes.exactly(block);
    if (header.every((byte) => byte === 0)) break;
    checkSum(header);
    const flag = String.fromCharCode(header[156] ?? 0);
    const size = sizeOf(header, flag, { ...global, ...extra });
    if ("xgLK".includes(flag)) {
      if (size > mostExtra) throw new TarError("a name in it has no end");
      const text = (await bytes.exactly(size)).toString("utf8");
      await bytes.skip(padding(size));
      if (flag === "L") extra = { ...extra, path: text.replace(/\0.*$/s, "") };
      else if (flag === "x") extra = { ...extra, ...parsePax(text) };
      else if (flag === "g") global = { ...global, ...parsePax(text) };
      continue;
    }
    const { path: name = nameOf(header) } = { ...global, ...extra };
    extra = {};
    let left = size;
    const content = async function* (): AsyncGenerator<Buffer> {
      while (left > 0) {
        const part = await bytes.some(left);
        left -= part.length;
        yield part;
      }
    };
    yield { name, type: typeOf(flag, name), size, mode: octal(header, 100, 8), content: content() };
    await bytes.skip(left + padding(size));
  }
  await bytes.drain();
}

interface Extra {
  readonly path?: string;
  readonly size?: number;
}

function padding(size: number): number {
  return (block - (size % block)) % block;
}

/** The sum of the header's bytes, its own field counted as spaces. */
function checkSum(header: Buffer): void {
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (sum !== octal(header, 148, 8)) throw new TarError("it is no tar, or it is damaged");
}

function typeOf(flag: string, name: string): TarEntry["type"] {
  if (flag === "5") return "directory";
  if (!"\0".concat("07").includes(flag)) return "other";
  return name.endsWith("/") ? "directory" : "file"; // as it was written before there was a flag for it
}

function nameOf(header: Buffer): string {
  const name = text(header, 0, 100);
  const posix = header.toString("latin1", 257, 263) === "ustar\0";
  const prefix = posix ? text(header, 345, 155) : "";
  return prefix === "" ? name : `${prefix}/${name}`;
}

/** Links, devices and directories have no content, whatever their header says. */
function sizeOf(header: Buffer, flag: string, { size }: Extra): number {
  if ("123456".includes(flag)) return 0;
  const first = header[124] ?? 0;
  const found = size ?? (first & 0x80 ? binary(header.subarray(125, 136)) : octal(header, 124, 12));
  if (!Number.isSafeInteger(found) || found < 0) throw new TarError("it is damaged: a file has no size");
  return found;
}

function text(header: Buffer, at: number, length: number): string {
  return header.toString("utf8", at, at + length).replace(/\0.*$/s, "");
}

function octal(header: Buffer, at: number, length: number): number {
  const digits = header
    .toString("latin1", at, at + length)
    .replace(/\0.*$/s, "")
    .trim();
  if (!/^[0-7]*$/.test(digits)) throw new TarError("it is no tar, or it is damaged");
  return digits === "" ? 0 : Number.parseInt(digits, 8);
}

function binary(digits: Buffer): number {
  return digits.reduce((value, byte) => value * 256 + byte, 0);
}

/** Records of the form `27 path=some/where\n`, whose length counts all of it, in bytes. */
function parsePax(text: string): Extra {
  const found: { path?: string; size?: number } = {};
  let rest = Buffer.from(text, "utf8");
  while (rest.length > 0) {
    const length = Number(/^\d{1,7}(?= )/.exec(rest.toString("latin1", 0, 8))?.[0]);
    const record = rest.toString("utf8", 0, length);
    const [, key, value] = /^\d+ ([^=]+)=(.*)\n$/s.exec(record) ?? [];
    if (!(length <= rest.length) || key === undefined || value === undefined)
      throw new TarError("it is damaged: a name cannot be read");
    if (key === "path") found.path = value;
    if (key === "size") found.size = /^\d+$/.test(value) ? Number(value) : Number.NaN;
    rest = rest.subarray(length);
  }
  return found;
}

/** Chunks of any size as what is asked for. */
function createByteReader(chunks: AsyncIterable<Buffer>) {
  const source = chunks[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);

  async function some(most: number): Promise<Buffer> {
    while (held.length === 0) {
      const next = await source.next();
      if (next.done) throw new TarError("it breaks off");
      held = next.value;
    }
    const part = held.subarray(0, most);
    held = held.subarray(part.length);
    return part;
  }

  return {
    some,
    async exactly(length: number): Promise<Buffer> {
      const parts: Buffer[] = [];
      for (let left = length; left > 0;) {
        const part = await some(left);
        parts.push(part);
        left -= part.length;
      }
      return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
    },
    async skip(length: number): Promise<void> {
      for (let left = length; left > 0;) left -= (await some(left)).length;
    },
    async drain(): Promise<void> {
      while (!(await source.next()).done);
    },
  };
}
