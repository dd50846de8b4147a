/** Somebody at a terminal who answers questions, one line each. */
import { createInterface, type Interface } from "node:readline";

export interface Person {
  ask(question: string): Promise<string>;
  close(): void;
}

/** One reader for all questions: with a new one for each, what was pasted ahead would be lost. */
export function createPerson(input: NodeJS.ReadableStream, say: (text: string) => void): Person {
  let reader: Interface | undefined;
  let lines: AsyncIterator<string> | undefined;
  return {
    async ask(question) {
      say(question);
      reader ??= createInterface({ input });
      lines ??= reader[Symbol.asyncIterator]();
      const { value, done } = await lines.next();
      if (done) throw new Error("there is no answer: the input has ended");
      return value;
    },
    close: () => reader?.close(),
  };
}
