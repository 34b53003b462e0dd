/** Direction overrides could make text read as what it is not: they are shown as escapes. */
export const visible = (text: string): string =>
  text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (char) => "\\u" + char.charCodeAt(0).toString(16));

export const DATA_IMAGE = /^data:image\/(?:png|jpe?g|gif|webp|svg\+xml)[;,]/i;
