/** Asks the user at the terminal; each answer is one line. */
import { createInterface, type Interface } from "node:readline";

export interface Person {
  ask(question: string): Promise<string>;
  close(): void;
}

/** One reader for all questions: a new one for each would lose lines that were pasted ahead. */
export function createPerson(input: NodeJS.ReadableStream, write: (text: string) => void): Person {
  let reader: Interface | undefined;
  let lines: AsyncIterator<string> | undefined;
  return {
    async ask(question) {
      write(question);
      reader ??= createInterface({ input });
      lines ??= reader[Symbol.asyncIterator]();
      const { value, done } = await lines.next();
      if (done) throw new Error("no answer: the input ended");
      return value;
    },
    close: () => reader?.close(),
  };
}
