import type { Assets } from "./assets";
import { isAsset } from "./parts";
import type { Part } from "./parts";
import { visible } from "./sanitize";
import { formatBytes, t } from "./strings";

const TYPES = /^(?:image\/(?:png|jpeg|gif|webp)|text\/(?:plain|csv|markdown|x-python|x-script\.python)|application\/(?:json|pdf))$/;
const NAMES = /\.(?:png|jpe?g|gif|webp|txt|text|csv|json|md|py|pdf)$/i;
const MAX_FILES = 10;
const MAX_TOTAL = 8 * 1024 * 1024;

export const ACCEPT = ".png,.jpg,.jpeg,.gif,.webp,.txt,.csv,.json,.md,.py,.pdf";

/** Takes the files that may be sent; each refused one gets a sentence that names it and the limit. */
export function pick(present: File[], added: File[], maxBytes: number): { accepted: File[]; errors: string[] } {
  const accepted = [...present];
  const errors: string[] = [];
  let total = present.reduce((sum, file) => sum + file.size, 0);
  for (const file of added) {
    const name = visible(file.name);
    if (!TYPES.test(file.type) && !NAMES.test(file.name)) errors.push(t("fileType", name));
    else if (file.size > maxBytes) errors.push(t("fileTooLarge", name, formatBytes(maxBytes)));
    else if (total + file.size > MAX_TOTAL) errors.push(t("filesTooLarge", name, formatBytes(MAX_TOTAL)));
    else if (accepted.length >= MAX_FILES) errors.push(t("tooMany", name));
    else {
      accepted.push(file);
      total += file.size;
    }
  }
  return { accepted, errors: [...new Set(errors)] };
}

/** Hands over the files of a message, each once its content is in the page. */
export function eachFile(parts: Part[], assets: Assets, take: (file: File) => void): void {
  for (const { type, url, filename, mediaType } of parts) {
    if (type !== "file") continue;
    const put = (content: BlobPart | undefined): void => {
      if (content !== undefined) take(new File([content], filename ?? "file", { type: mediaType ?? "" }));
    };
    if (!isAsset(url)) {
      const [, base64, data] = /^data:[^,]*?(;base64)?,(.*)/s.exec(url ?? "") ?? [];
      if (data !== undefined) put(base64 ? Uint8Array.from(atob(data), (char) => char.charCodeAt(0)) : decodeURIComponent(data));
    } else if (url.asset !== null) assets.whenLoaded(url.asset, () => put(assets.blob(url.asset as string)));
  }
}
