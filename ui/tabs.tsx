/** Tabs: the arrow keys move between them. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

interface TabsProps<Id extends string> {
  /** For screen readers. */
  readonly label: string;
  readonly tabs: readonly { readonly id: Id; readonly title: string; readonly count: number }[];
  readonly selected: Id;
  onSelect(id: Id): void;
}

const steps: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowLeft: -1 };

export function Tabs<Id extends string>({ label, tabs, selected, onSelect }: TabsProps<Id>) {
  const list = useRef<HTMLDivElement>(null);
  function moved(event: KeyboardEvent): void {
    const at = tabs.findIndex(({ id }) => id === selected);
    const to = { Home: 0, End: tabs.length - 1 }[event.key] ?? at + (steps[event.key] ?? NaN);
    const next = tabs[(to + tabs.length) % tabs.length];
    if (next === undefined) return;
    event.preventDefault();
    onSelect(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={moved}>
      {tabs.map(({ id, title, count }) => (
        <button
          type="button"
          role="tab"
          key={id}
          id={`tab-${id}`}
          aria-selected={id === selected}
          aria-controls="tab-panel"
          tabIndex={id === selected ? 0 : -1}
          onClick={() => onSelect(id)}
        >
          {title} <span class="count">{count}</span>
        </button>
      ))}
    </div>
  );
}

export function TabPanel({ tab, children }: { readonly tab: string; readonly children: ComponentChildren }) {
  return (
    <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
      {children}
    </div>
  );
}
