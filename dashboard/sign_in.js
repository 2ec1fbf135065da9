// Asks for the token that requests over TCP carry.
import shared from './shared.js';
import {token} from './api.js';
import {uniqueId} from './parts.js';

const {element} = shared;

// `reason`: why the token is needed. `onDone`: called after a token was entered.
export const signIn = (container, reason, onDone) => {
  const id = uniqueId('token');
  const field = element('input', {id, type: 'password', autocomplete: 'off', spellcheck: 'false', required: '',
    'aria-describedby': `${id}-reason`});
  const form = element('form', {class: 'message sign-in'}, [
    element('h1', {class: 'message-title', text: 'This server requires a token'}),
    element('p', {id: `${id}-reason`, role: 'alert', text: reason}),
    element('label', {for: id, text: 'Token'}), field,
    element('button', {type: 'submit', text: 'Sign in'}),
    element('p', {class: 'caption',
      text: 'A token with the scope read is sufficient. This tab keeps it until you close it. Without one: on the '
        + 'machine of the server, lowgear serve sign-in prints an address that signs you in.'})]);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    onDone();
  });
  container.replaceChildren(form);
  field.focus();
};
