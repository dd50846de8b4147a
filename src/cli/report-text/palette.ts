/** The colours of the terminal by meaning. */
import { styleText } from "node:util";

const formats = {
  title: "bold",
  added: "green",
  removed: "red",
  changed: "yellow",
  aside: "dim",
  danger: ["bold", "red"],
  caution: ["bold", "yellow"],
} as const satisfies Record<string, Parameters<typeof styleText>[0]>;

export type Tone = keyof typeof formats;
/** Colours one line, or returns it unchanged. */
export type Colouring = (tone: Tone, text: string) => string;

export function createColouring(color: boolean): Colouring {
  return (tone, text) => (color ? styleText(formats[tone], text, { validateStream: false }) : text);
}
