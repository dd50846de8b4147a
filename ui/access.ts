/** Who looks at the page, and what they may do. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export interface Access {
  readonly by: string;
  readonly name?: string | undefined;
  readonly role?: string | undefined;
}

export const AccessContext = createContext<Access | undefined>(undefined);

/** Whether anybody may change anything here. */
export function useChanging(): boolean {
  return useContext(AccessContext)?.role !== undefined;
}

/** Why the caller may change nothing at all; `undefined` if they may. */
export function useObjection(): string | undefined {
  const access = useContext(AccessContext);
  return access?.role === "operator" ? undefined : "Only operators can do this.";
}
