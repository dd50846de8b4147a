/** Bounds the output of a process and makes it safe to display. Pure. */
import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";

/** Control characters except tab and newline, and those that change the direction of text. */
const harmful = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

export function toPlainText(text: string): string {
  return stripVTControlCharacters(text).replace(harmful, "");
}

/** Keeps the last `maxBytes` of a stream. */
export function createTail(maxBytes: number): { push(chunk: Buffer): void; text(): string } {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    push(chunk) {
      chunks.push(chunk);
      size += chunk.length;
      while (size - (chunks[0]?.length ?? 0) >= maxBytes) size -= chunks.shift()?.length ?? 0;
    },
    text: () => Buffer.concat(chunks).subarray(-maxBytes).toString("utf8"),
  };
}

export interface LineLimits {
  /** Longer lines are truncated. */
  readonly lineLength: number;
  /** Lines after this many are ignored, so that a flood of output does not keep the server busy. */
  readonly lines: number;
}

/** Calls back with each line as plain text; `end` flushes the last one. Blank lines are skipped. */
export function createLineReader(
  { lineLength, lines }: LineLimits,
  onLine: (line: string) => void,
): { push(chunk: Buffer): void; end(): void } {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let left = lines;
  const emit = (raw: string) => {
    const line = toPlainText(raw).trimEnd();
    if (line === "" || left === 0) return;
    left--;
    if (left === 0) onLine("(further output is not shown)");
    else onLine(line.length > lineLength ? `${line.slice(0, lineLength)}…` : line);
  };
  return {
    push(chunk) {
      if (left === 0) return;
      const parts = (rest + decoder.write(chunk)).split(/\r?\n|\r/);
      // Truncate an unfinished line here already, so that the buffer stays small.
      rest = (parts.pop() ?? "").slice(0, lineLength + 1);
      for (const part of parts) emit(part);
    },
    end() {
      emit(rest + decoder.end());
      rest = "";
    },
  };
}
