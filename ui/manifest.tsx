/** The manifest of one object, as a merge renders it: read when it is opened. */
import { useEffect, useState } from "preact/hooks";
import type { PageManifests } from "../src/web/facts.ts";
import { Loading } from "./parts.tsx";
import { messageOf } from "./words.ts";

interface Props {
  /** Kind, namespace and name. */
  readonly object: string;
  /** Reads all of the deployment. */
  read(): Promise<PageManifests>;
}

export function Manifest({ object, read }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details class="manifest" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Manifest</summary>
      {open && <Text object={object} read={read} />}
    </details>
  );
}

function Text({ object, read }: Props) {
  const [found, setFound] = useState<{ readonly value?: PageManifests; readonly problem?: string }>({});
  useEffect(() => {
    let isCurrent = true;
    read().then(
      (value) => isCurrent && setFound({ value }),
      (error: unknown) => isCurrent && setFound({ problem: messageOf(error) }),
    );
    return () => void (isCurrent = false);
  }, [read]);
  if (found.value === undefined) return <Loading problem={found.problem} />;
  // Objects of different API groups may have the same name.
  const manifests = found.value.objects.filter((one) => one.object === object);
  if (manifests.length === 0) {
    const { leftOut } = found.value;
    const why = leftOut > 0 ? `: all of the deployment are too large, so ${leftOut} of them were omitted` : "";
    return <p class="quiet">The manifest of this object is not stored{why}.</p>;
  }
  return (
    <>
      <p class="quiet">As the merge renders it, before the API server adds anything. Secret values are masked.</p>
      {manifests.map(({ text, linesLeftOut }, index) => (
        <div key={index}>
          <pre class="words" role="group" tabIndex={0} aria-label={`Manifest of ${object}`}>
            {text}
          </pre>
          {linesLeftOut > 0 && <p class="quiet">and {linesLeftOut} more lines, which were not stored</p>}
        </div>
      ))}
    </>
  );
}
