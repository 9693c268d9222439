package atbus

// #include "bridge.h"
import "C"

import "context"

// Code says why something failed. The numbers are those of atbus_code and never change.
type Code int

// The codes that programs ask for most. Code.String has the names of all.
const (
	WouldBlock      Code = C.ATBUS_WOULD_BLOCK
	MessageTooLarge Code = C.ATBUS_MESSAGE_TOO_LARGE
	Closed          Code = C.ATBUS_CLOSED
	TimedOut        Code = C.ATBUS_TIMED_OUT
	InvalidArgument Code = C.ATBUS_INVALID_ARGUMENT
	InvalidAddress  Code = C.ATBUS_INVALID_ADDRESS
	NotFound        Code = C.ATBUS_NOT_FOUND
	ReceiverExists  Code = C.ATBUS_RECEIVER_EXISTS
	PeerClosed      Code = C.ATBUS_PEER_CLOSED
	OutcomeUnknown  Code = C.ATBUS_OUTCOME_UNKNOWN
	NotDelivered    Code = C.ATBUS_NOT_DELIVERED
	NoRoute         Code = C.ATBUS_NO_ROUTE
	NotConnected    Code = C.ATBUS_NOT_CONNECTED
	Denied          Code = C.ATBUS_DENIED
	UnknownCommand  Code = C.ATBUS_UNKNOWN_COMMAND
	CommandFailed   Code = C.ATBUS_COMMAND_FAILED
	UnknownRequest  Code = C.ATBUS_UNKNOWN_REQUEST
	RequestFailed   Code = C.ATBUS_REQUEST_FAILED
	Cancelled       Code = C.ATBUS_CANCELLED
	outOfMemory     Code = C.ATBUS_OUT_OF_MEMORY
)

// String is the name of the code: "would_block".
func (c Code) String() string { return C.GoString(C.atbus_code_name(C.int(c))) }

// Error says what failed: Code for programs, the text for people. errors.Is(err, atbus.ErrClosed) compares codes.
// TimedOut is context.DeadlineExceeded too, and Cancelled is context.Canceled.
type Error struct {
	Code Code
	Text string // what is at fault and what to do; of RequestFailed, what the handler said
}

// Errors to compare with.
var (
	ErrWouldBlock      = &Error{Code: WouldBlock}
	ErrMessageTooLarge = &Error{Code: MessageTooLarge}
	ErrClosed          = &Error{Code: Closed}
	ErrTimedOut        = &Error{Code: TimedOut}
	ErrCancelled       = &Error{Code: Cancelled}
	ErrInvalidArgument = &Error{Code: InvalidArgument}
	ErrNoRoute         = &Error{Code: NoRoute}
	ErrRequestFailed   = &Error{Code: RequestFailed}
	ErrUnknownRequest  = &Error{Code: UnknownRequest}
)

// Error is the text, or what the code means if there is none.
func (e *Error) Error() string {
	if e.Text != "" {
		return "atbus: " + e.Code.String() + ": " + e.Text
	}
	return "atbus: " + C.GoString(C.atbus_code_text(C.int(e.Code)))
}

// Is makes errors with the same code equal.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == TimedOut
	case context.Canceled:
		return e.Code == Cancelled
	}
	other, is := target.(*Error)
	return is && other.Code == e.Code
}

func invalid(text string) error { return &Error{InvalidArgument, text} }

// The error of a call to C that has just returned on this thread.
func errorOf(code C.atbus_code) error {
	if code == C.ATBUS_OK {
		return nil
	}
	return &Error{Code(code), C.GoString(C.atbus_last_error())}
}

// The error of an outcome that is told later.
func outcome(code C.int32_t, text string) error {
	if code == C.ATBUS_OK {
		return nil
	}
	return &Error{Code(code), text}
}

// The error of a context that is done.
func doneError(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return ErrTimedOut
	}
	return ErrCancelled
}
