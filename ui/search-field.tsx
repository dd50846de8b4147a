/** A search field that filters a list. `/` focuses it. */
import { useRef } from "preact/hooks";
import { useSearchKey } from "./hooks.ts";
import { searchHint } from "./words.ts";

export interface SearchFieldProps {
  /** What is searched, for screen readers. */
  readonly label: string;
  /** The placeholder: what can be searched for. */
  readonly hint: string;
  readonly text: string;
  onText(text: string): void;
}

export function SearchField({ label, hint, text, onText }: SearchFieldProps) {
  const field = useRef<HTMLInputElement>(null);
  useSearchKey(field);
  return (
    <input
      ref={field}
      type="search"
      aria-label={label}
      aria-keyshortcuts="/"
      placeholder={`${hint} …${searchHint()}`}
      value={text}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  );
}
