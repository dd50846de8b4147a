/** Settings that the browser stores. */
import { useEffect, useState } from "preact/hooks";

/** All users of the same name see a change immediately. `isOne` rejects values stored by another version. */
export function useSetting<T extends string>(
  name: string,
  standard: T,
  isOne: (text: string) => text is T,
): readonly [T, (value: T) => void] {
  const [value, setValue] = useState(() => read(name, standard, isOne));
  useEffect(() => {
    const changed = () => setValue(read(name, standard, isOne));
    addEventListener(`setting-${name}`, changed);
    return () => removeEventListener(`setting-${name}`, changed);
  }, [name]);
  return [
    value,
    (next) => {
      remembered.set(name, next);
      try {
        localStorage.setItem(`towline-${name}`, next);
      } catch {
        // The browser may forbid it: the setting then lasts as long as the page is open.
      }
      dispatchEvent(new Event(`setting-${name}`));
    },
  ];
}

const remembered = new Map<string, string>();

function read<T extends string>(name: string, standard: T, isOne: (text: string) => text is T): T {
  let text = remembered.get(name);
  try {
    text ??= localStorage.getItem(`towline-${name}`) ?? undefined;
  } catch {
    // The browser may forbid that, too.
  }
  return text !== undefined && isOne(text) ? text : standard;
}
